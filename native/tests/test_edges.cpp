// Edges as text or numbers, ids, and clean rows.
#include <string>
#include <vector>

#include "check.h"
#include "graph/edge_text.h"
#include "graph/ids.h"
#include "graphs.h"

namespace dhilgt {
namespace {

void rows_are_clean() {
  //   0 -> 1 twice, 1 -> 0, 2 -> 2, 3 -> 1
  const std::int64_t sources[] = {0, 0, 1, 2, 3};
  const std::int64_t targets[] = {1, 1, 0, 2, 1};
  for (const unsigned threads : {1u, 3u}) {
    Control control;
    const CleanCsr both = build_csr(sources, targets, 5, 5, false, threads, control);
    CHECK((both.offsets == std::vector<std::int64_t>{0, 1, 3, 3, 4, 4}));
    CHECK((both.targets == std::vector<std::int32_t>{1, 0, 3, 1}));
    CHECK(both.self_loops == 1 && both.duplicates == 1 && both.reversed_added == 1);
    const CleanCsr one = build_csr(sources, targets, 5, 5, true, threads, control);
    CHECK((one.offsets == std::vector<std::int64_t>{0, 1, 2, 2, 3, 3}));
    CHECK((one.targets == std::vector<std::int32_t>{1, 0, 1}));
    const Csr turned = transpose(one.offsets.data(), one.targets.data(), 5, control);
    CHECK((turned.offsets == std::vector<std::int64_t>{0, 1, 3, 3, 3, 3}));
    CHECK((turned.targets == std::vector<std::int32_t>{1, 0, 3}));
  }
}

void no_edges_and_bad_sizes() {
  Control control;
  const std::int32_t none = 0;
  CHECK(build_csr(&none, &none, 0, 3, false, 2, control).offsets == std::vector<std::int64_t>(4, 0));
  CHECK_THROWS(std::invalid_argument, check_num_nodes(0));
  CHECK_THROWS(std::invalid_argument, check_num_nodes(kNodeLimit));
  const std::int64_t values[] = {0, 4, -1, 5};
  CHECK(first_outside(values, 4, 5) == 2 && first_outside(values, 2, 5) == 2 && first_outside(values, 4, 4) == 1);
}

void ids_become_ranks() {
  const std::vector<std::vector<std::int64_t>> spreads{
      {7, 7, 9, -3}, {INT64_MIN, INT64_MAX, 0, 5}, {1'000'000'000'000, -5, 3, 3}};
  for (const auto& sources : spreads) {
    const std::vector<std::int64_t> targets{sources[3], 9, 9, sources[0]};
    for (const unsigned threads : {1u, 2u}) {
      Control control;
      const CompactIds compact = compact_ids(sources.data(), targets.data(), 4, threads, control);
      CHECK(std::is_sorted(compact.ids.begin(), compact.ids.end()));
      CHECK(std::adjacent_find(compact.ids.begin(), compact.ids.end()) == compact.ids.end());
      for (std::size_t i = 0; i < 4; ++i) {
        CHECK(compact.ids[static_cast<std::size_t>(compact.sources[i])] == sources[i]);
        CHECK(compact.ids[static_cast<std::size_t>(compact.targets[i])] == targets[i]);
      }
    }
  }
  Control control;
  CHECK(compact_ids(nullptr, nullptr, 0, 1, control).ids.empty());
}

void text_is_read_by_any_number_of_threads() {
  std::string text = "# a comment\n\n";
  EdgeTextOptions options;
  options.comment = '#';
  for (int i = 0; i < 20000; ++i) text += std::to_string(i) + "\t" + std::to_string(-i * 7) + "\r\n";
  text += "5 6";  // no newline at the end
  for (const unsigned threads : {1u, 2u, 5u}) {
    Control control;
    EdgeText parser(options);
    parser.feed(text.data(), text.size(), threads, control);
    CHECK(parser.num_edges() == 20001 && parser.num_comments() == 1 && parser.num_marked() == 0);
    std::vector<std::int64_t> sources, targets;
    parser.take_integers(sources, targets);
    for (std::int64_t i = 0; i < 20000; ++i) {
      CHECK(sources[static_cast<std::size_t>(i)] == i && targets[static_cast<std::size_t>(i)] == -i * 7);
    }
    CHECK(sources.back() == 5 && targets.back() == 6);
  }
}

void names_are_sorted() {
  EdgeTextOptions options;
  options.separator = ',';
  options.strings = true;
  const std::string text = "bob,\"an,n\"\nzoé,bob\n\"say \"\"hi\"\"\",zoé\n";
  Control control;
  EdgeText parser(options);
  parser.feed(text.data(), text.size(), 2, control);
  std::vector<std::string> names;
  std::vector<std::int32_t> sources, targets;
  parser.take_strings(names, sources, targets);
  CHECK((names == std::vector<std::string>{"an,n", "bob", "say \"hi\"", "zoé"}));
  CHECK((sources == std::vector<std::int32_t>{1, 3, 2}));
  CHECK((targets == std::vector<std::int32_t>{0, 1, 3}));
}

void the_first_bad_line_is_reported() {
  for (const unsigned threads : {1u, 3u}) {
    std::string text;
    for (int i = 0; i < 5000; ++i) text += i == 3000 || i == 4000 ? "1 x\n" : "1 2\n";
    Control control;
    EdgeText parser({});
    try {
      parser.feed(text.data(), text.size(), threads, control);
      CHECK(false);
    } catch (const EdgeTextError& error) {
      CHECK(error.line == 3001 && std::string(error.kind) == "integer");
    }
  }
}

std::string kind_of(const std::string& text, const EdgeTextOptions& options) {
  Control control;
  EdgeText parser(options);
  try {
    parser.feed(text.data(), text.size(), 1, control);
  } catch (const EdgeTextError& error) {
    return error.kind;
  }
  return std::to_string(parser.num_edges()) + " edges, " + std::to_string(parser.num_comments()) +
         " comments, " + std::to_string(parser.num_marked()) + " marked";
}

void signs_begin_ids_or_comments() {
  EdgeTextOptions words;
  words.separator = ',';
  words.strings = true;
  CHECK(kind_of("#a,b\n# c,d\n", words) == "2 edges, 0 comments, 0 marked");
  words.comment = '#';
  CHECK(kind_of("#a,b\n  #\n%c,d\n", words) == "1 edges, 2 comments, 0 marked");
  words.comment = '\0';
  words.guard = true;
  CHECK(kind_of("#a,b\n%c,d\ne,f\n", words) == "3 edges, 0 comments, 2 marked");
  for (const char* line : {"# a,b", "#", "##a,b", "%%a,b", "#a", "#a,b,c", "  # a,b"}) {
    CHECK(kind_of(std::string("a,b\n") + line + "\n", words) == "comment");
  }
  EdgeTextOptions numbers;
  numbers.guard = true;
  CHECK(kind_of("1 2\n#3 4\n", numbers) == "comment");
}

void ids_may_be_missing_or_decimal() {
  EdgeTextOptions words;
  words.separator = ',';
  words.strings = true;
  CHECK(kind_of("a,NA\n", words) == "missing" && kind_of("nan,a\n", words) == "missing");
  CHECK(kind_of("a,\"NA\"\n", words) == "1 edges, 0 comments, 0 marked");
  CHECK(kind_of("a,\n", words) == "empty" && kind_of("a,b,\n", words)[0] == '1');
  CHECK(kind_of("a,b,c\n", words) == "extra");
  EdgeTextOptions numbers;
  CHECK(kind_of("1.0 2\n", numbers) == "integer");
  numbers.whole = true;
  CHECK(kind_of("1.0 2\n-3. +4.00\n", numbers)[0] == '2');
  for (const char* line : {"1.5 2", ".0 2", "1.0.0 2", "1.0x 2", "- 2", "-.0 2"}) {
    CHECK(kind_of(line, numbers) == "integer");
  }
}

// Any bytes either parse or throw EdgeTextError; run under the sanitizers too.
void random_bytes_never_crash() {
  const char alphabet[] = "0123456789 ,\t\n\r\"#%-+.eax\xC3\xA9\xFF";
  for (std::uint64_t seed = 0; seed < 20000; ++seed) {
    check::context = "seed " + std::to_string(seed);
    KeyedRandom random(seed, 0, 0);
    std::string text;
    for (std::uint64_t length = random.below(60); length > 0; --length) {
      text += alphabet[random.below(sizeof(alphabet) - 1)];
    }
    EdgeTextOptions options;
    options.separator = random.below(2) == 0 ? ' ' : ',';
    options.strings = random.below(2) == 0;
    options.extra_columns = random.below(2) == 0;
    options.ones_column = random.below(4) == 0 ? 2 : -1;
    options.whole = random.below(2) == 0;
    options.guard = random.below(2) == 0;
    options.comment = random.below(2) == 0 ? '#' : '\0';
    Control control;
    try {
      EdgeText parser(options);
      parser.feed(text.data(), text.size(), 1, control);
    } catch (const EdgeTextError&) {
    }
  }
}

}  // namespace
}  // namespace dhilgt

int main() {
  using namespace dhilgt;
  check::run("rows are clean", rows_are_clean);
  check::run("no edges and bad sizes", no_edges_and_bad_sizes);
  check::run("ids become ranks", ids_become_ranks);
  check::run("text is read by any number of threads", text_is_read_by_any_number_of_threads);
  check::run("names are sorted", names_are_sorted);
  check::run("the first bad line is reported", the_first_bad_line_is_reported);
  check::run("signs begin ids or comments", signs_begin_ids_or_comments);
  check::run("ids may be missing or decimal", ids_may_be_missing_or_decimal);
  check::run("random bytes never crash", random_bytes_never_crash);
}
