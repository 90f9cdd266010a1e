// Edges from text, one per line, fed block by block. The caller knows the separator and the columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/control.h"

namespace dhilgt {

struct EdgeTextOptions {
  char separator = ' ';             // ' ' means any run of spaces and tabs
  unsigned source_column = 0;
  unsigned target_column = 1;
  bool extra_columns = false;       // further columns are ignored instead of rejected
  int ones_column = -1;             // every value there must be the number 1
  bool strings = false;             // ids are text; otherwise 64-bit integers
  bool whole = false;               // integers may be written like 7.0
  char comment = '\0';              // lines that begin with it are skipped and counted; '\0': none
  bool guard = false;               // reject lines that look like comments, see EdgeText
  std::uint64_t first_line = 1;     // number of the first line fed
};

// The first bad line of the text. `kind` is one of a fixed set of words.
struct EdgeTextError : std::invalid_argument {
  EdgeTextError(const char* kind, std::uint64_t line, std::string text);
  const char* kind;     // columns, extra, integer, empty, missing, comment, quote, utf8, ones
  std::uint64_t line;   // 1-based
  std::string text;     // the bad field or line, truncated; may hold any bytes
};

// Blank lines are skipped. A field may be enclosed in double quotes, "" inside standing for one quote.
// Lines end in \n or \r\n. Empty columns after the last one needed are allowed: some programs end
// each line with a separator.
//
// The guard is for text whose owner has not said what a comment is. A line that begins with # or % is
// an edge if it reads as one, as in "#cats,#dogs", and is counted. If it does not, or if a blank or
// another sign follows the first, as in "# part two", it is rejected as a comment.
class EdgeText {
 public:
  explicit EdgeText(const EdgeTextOptions& options);
  ~EdgeText();
  EdgeText(const EdgeText&) = delete;
  EdgeText& operator=(const EdgeText&) = delete;

  // `text` holds whole lines; the last one may lack its \n. Throws EdgeTextError for the first bad
  // line, the same for any number of threads; the object must not be used after that.
  void feed(const char* text, std::size_t size, unsigned threads, Control& control);

  std::size_t num_edges() const;
  std::size_t num_comments() const;  // lines skipped
  std::size_t num_marked() const;    // edges whose line begins with # or %, with the guard

  // Move the result out: one of the two, once, after the last feed.
  void take_integers(std::vector<std::int64_t>& sources, std::vector<std::int64_t>& targets);
  void take_strings(std::vector<std::string>& names, std::vector<std::int32_t>& sources,
                    std::vector<std::int32_t>& targets);  // names in ascending order of their bytes

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dhilgt
