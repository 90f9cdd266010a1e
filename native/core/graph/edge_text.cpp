#include "graph/edge_text.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "base/parallel.h"
#include "graph/csr.h"

namespace dhilgt {

namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
constexpr std::size_t kMessageBytes = 80;

bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::string truncated(std::string_view text) { return std::string(text.substr(0, kMessageBytes)); }

// Well-formed UTF-8 as Unicode defines it: no overlong forms, no surrogates, nothing past 10FFFF.
bool valid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i++]);
    if (lead < 0x80) continue;
    int more = 0;
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    if (lead >= 0xC2 && lead <= 0xDF) {
      more = 1;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
      more = 2;
      if (lead == 0xE0) low = 0xA0;
      if (lead == 0xED) high = 0x9F;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
      more = 3;
      if (lead == 0xF0) low = 0x90;
      if (lead == 0xF4) high = 0x8F;
    } else {
      return false;
    }
    for (; more > 0; --more) {
      if (i >= text.size()) return false;
      const auto next = static_cast<unsigned char>(text[i++]);
      if (next < low || next > high) return false;
      low = 0x80;
      high = 0xBF;
    }
  }
  return true;
}

bool parse_integer(std::string_view text, std::int64_t& value) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  if (begin != end && *begin == '+') {
    ++begin;
    if (begin != end && *begin == '-') return false;
  }
  const auto [stop, error] = std::from_chars(begin, end, value);
  return error == std::errc() && stop == end;
}

// 7., 7.0, 7.00: what is left of a whole number once a program has taken it for a decimal one.
bool parse_whole(std::string_view text, std::int64_t& value) {
  const std::size_t point = text.find('.');
  if (point != std::string_view::npos) {
    if (point == 0 || text.find_first_not_of('0', point + 1) != std::string_view::npos) return false;
    text = text.substr(0, point);
  }
  return parse_integer(text, value);
}

// Words that stand for a cell without a value.
bool is_missing(std::string_view text) {
  if (text.size() > 4 || text.size() < 2) return false;
  for (const char* word : {"NA", "N/A", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "None"}) {
    if (text == word) return true;
  }
  return false;
}

bool is_one(std::string_view text) {
  std::int64_t integer = 0;
  if (parse_integer(text, integer)) return integer == 1;
  // 1., 1.0, 1.000000e+00 and the like: a one, a point, zeros and an exponent of zero.
  std::size_t i = 0;
  if (i < text.size() && text[i] == '+') ++i;
  if (i >= text.size() || text[i++] != '1') return false;
  if (i < text.size() && text[i] == '.') ++i;
  while (i < text.size() && text[i] == '0') ++i;
  if (i == text.size()) return text.find('.') != std::string_view::npos;
  if (text[i] != 'e' && text[i] != 'E') return false;
  ++i;
  if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
  if (i == text.size()) return false;
  return text.find_first_not_of('0', i) == std::string_view::npos;
}

// Distinct strings, numbered in order of arrival. They are sharded by hash, so that workers seldom wait
// for a lock. These numbers depend on timing; the ranks that replace them in the end do not.
class Interner {
 public:
  std::uint32_t number(std::string_view text) {
    const std::uint64_t hash = hash_of(text);
    const auto which = static_cast<std::uint32_t>(hash >> 58);
    Shard& shard = shards_[which];
    const std::lock_guard<std::mutex> guard(shard.lock);
    return shard.number(text, hash) << kShardBits | which;
  }

  // Returns the names in ascending order, and sets the rank of each number.
  std::vector<std::string> finish(std::array<std::vector<std::int32_t>, 64>& ranks) {
    struct Entry {
      std::string_view text;
      std::uint32_t shard;
      std::uint32_t local;
    };
    std::vector<Entry> entries;
    for (std::uint32_t which = 0; which < shards_.size(); ++which) {
      const Shard& shard = shards_[which];
      ranks[which].resize(shard.size());
      for (std::uint32_t local = 0; local < shard.size(); ++local) {
        entries.push_back({shard.text(local), which, local});
      }
    }
    if (!entries.empty()) check_num_nodes(static_cast<std::int64_t>(entries.size()));
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.text < b.text; });
    std::vector<std::string> names;
    names.reserve(entries.size());
    for (const Entry& entry : entries) {
      ranks[entry.shard][entry.local] = static_cast<std::int32_t>(names.size());
      names.emplace_back(entry.text);
    }
    return names;
  }

  static constexpr unsigned kShardBits = 6;

 private:
  static std::uint64_t hash_of(std::string_view text) {
    std::uint64_t h = 0x9E3779B97F4A7C15ull ^ text.size();
    std::size_t i = 0;
    for (; i < text.size(); i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + i, std::min<std::size_t>(8, text.size() - i));
      h = (h ^ word) * 0xFF51AFD7ED558CCDull;
      h ^= h >> 32;
    }
    h *= 0xC4CEB9FE1A85EC53ull;
    return h ^ (h >> 29);
  }

  struct Shard {
    std::mutex lock;
    std::string arena;
    std::vector<std::size_t> starts{0};
    std::vector<std::uint64_t> hashes;
    // Low half: number + 1, or 0 if the slot is free. High half: bits of the hash, so that the string
    // of a slot is compared only if these match.
    std::vector<std::uint64_t> slots = std::vector<std::uint64_t>(64, 0);

    static std::uint64_t tag_of(std::uint64_t hash) { return hash >> 26 & 0xFFFFFFFFu; }
    std::size_t size() const { return hashes.size(); }
    std::string_view text(std::size_t i) const {
      return std::string_view(arena).substr(starts[i], starts[i + 1] - starts[i]);
    }

    std::uint32_t number(std::string_view key, std::uint64_t hash) {
      const std::size_t mask = slots.size() - 1;
      std::size_t at = static_cast<std::size_t>(hash) & mask;
      for (; slots[at] != 0; at = (at + 1) & mask) {
        if (slots[at] >> 32 != tag_of(hash)) continue;
        const std::uint32_t known = static_cast<std::uint32_t>(slots[at]) - 1;
        if (text(known) == key) return known;
      }
      if (size() >= (std::size_t{1} << (32 - kShardBits)) - 1) {
        throw std::invalid_argument("the file holds more distinct ids than the limit of " +
                                    std::to_string(kNodeLimit));
      }
      const auto fresh = static_cast<std::uint32_t>(size());
      arena.append(key);
      starts.push_back(arena.size());
      hashes.push_back(hash);
      slots[at] = tag_of(hash) << 32 | (fresh + 1);
      if (size() * 2 > slots.size()) grow();
      return fresh;
    }

    void grow() {
      slots.assign(slots.size() * 2, 0);
      const std::size_t mask = slots.size() - 1;
      for (std::size_t i = 0; i < hashes.size(); ++i) {
        std::size_t at = static_cast<std::size_t>(hashes[i]) & mask;
        while (slots[at] != 0) at = (at + 1) & mask;
        slots[at] = tag_of(hashes[i]) << 32 | (i + 1);
      }
    }
  };

  std::array<Shard, 64> shards_;
};

struct Problem {
  const char* kind;
  std::uint64_t line;
  std::string text;
};

// The edges of one chunk of lines: as integers, or as numbers of strings.
struct Chunk {
  std::vector<std::int64_t> sources, targets;
  std::vector<std::uint32_t> source_numbers, target_numbers;
  std::uint64_t lines = 0;
  std::size_t comments = 0;
  std::size_t marked = 0;
  std::optional<Problem> problem;
};

// Iterates over the fields of one line.
class Fields {
 public:
  Fields(std::string_view line, char separator)
      : at_(line.data()), end_(line.data() + line.size()), separator_(separator) {}

  // Returns false at the end of the line and at a malformed quoted field, which sets open_quote().
  bool next(std::string_view& field, std::string& scratch) {
    in_quotes_ = false;
    while (at_ != end_ && (*at_ == ' ' || (*at_ == '\t' && separator_ != '\t'))) ++at_;
    if (done_ || (spaces() && at_ == end_)) return false;
    if (at_ != end_ && *at_ == '"') return quoted(field, scratch);
    const char* begin = at_;
    while (at_ != end_ && !separates(*at_)) ++at_;
    const char* stop = at_;
    while (stop != begin && is_blank(stop[-1])) --stop;
    field = std::string_view(begin, static_cast<std::size_t>(stop - begin));
    step();
    return true;
  }

  bool open_quote() const { return open_quote_; }
  bool in_quotes() const { return in_quotes_; }  // whether the last field was

 private:
  bool spaces() const { return separator_ == ' '; }
  bool separates(char c) const { return spaces() ? is_blank(c) : c == separator_; }

  void step() {
    if (at_ == end_) {
      done_ = true;
    } else {
      ++at_;
    }
  }

  bool quoted(std::string_view& field, std::string& scratch) {
    const char* begin = ++at_;
    in_quotes_ = true;
    bool escaped = false;
    for (;; ++at_) {
      at_ = static_cast<const char*>(std::memchr(at_, '"', static_cast<std::size_t>(end_ - at_)));
      if (at_ == nullptr) return fail();
      if (at_ + 1 == end_ || at_[1] != '"') break;
      escaped = true;
      ++at_;
    }
    field = std::string_view(begin, static_cast<std::size_t>(at_ - begin));
    ++at_;
    while (at_ != end_ && is_blank(*at_) && !separates(*at_)) ++at_;
    if (at_ != end_ && !separates(*at_)) return fail();
    if (escaped) {
      scratch.clear();
      for (std::size_t i = 0; i < field.size(); ++i) {
        scratch.push_back(field[i]);
        if (field[i] == '"') ++i;
      }
      field = scratch;
    }
    step();
    return true;
  }

  bool fail() {
    open_quote_ = true;
    done_ = true;
    at_ = end_;
    return false;
  }

  const char* at_;
  const char* end_;
  char separator_;
  bool done_ = false;
  bool open_quote_ = false;
  bool in_quotes_ = false;
};

class LineReader {
 public:
  LineReader(const EdgeTextOptions& options, Interner& names) : options_(options), names_(names) {
    last_column_ = std::max(options.source_column, options.target_column);
    if (options.ones_column >= 0) {
      last_column_ = std::max(last_column_, static_cast<unsigned>(options.ones_column));
    }
  }

  Chunk read(std::string_view text) {
    Chunk out;
    const std::size_t guess = text.size() / 12 + 1;
    if (options_.strings) {
      out.source_numbers.reserve(guess);
      out.target_numbers.reserve(guess);
    } else {
      out.sources.reserve(guess);
      out.targets.reserve(guess);
    }
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = text.find('\n', at);
      if (end == std::string_view::npos) end = text.size();
      std::string_view line = text.substr(at, end - at);
      at = end + 1;
      ++out.lines;
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      const std::size_t first = line.find_first_not_of(" \t");
      if (first == std::string_view::npos) continue;
      const char sign = line[first];
      if (sign == options_.comment && sign != '\0') {
        ++out.comments;
        continue;
      }
      const bool marked = options_.guard && (sign == '#' || sign == '%');
      const char* kind = marked && is_remark(line.substr(first)) ? "comment" : read_line(line, out);
      if (marked && kind != nullptr) {
        bad_ = line;
        kind = "comment";
      }
      if (marked) ++out.marked;
      if (kind != nullptr) {
        out.problem = Problem{kind, out.lines, truncated(bad_)};
        break;
      }
    }
    return out;
  }

 private:
  static bool is_remark(std::string_view marked) {
    return marked.size() == 1 || is_blank(marked[1]) || marked[1] == marked[0];
  }

  // Returns nullptr, or the kind of the error, with the text at fault in bad_.
  const char* read_line(std::string_view line, Chunk& out) {
    Fields fields(line, options_.separator);
    std::string_view field;
    std::string_view source;
    std::string_view target;
    unsigned column = 0;
    bad_ = line;
    for (; fields.next(field, scratch_[std::min(column, 2u)]); ++column) {
      if (column == options_.source_column || column == options_.target_column) {
        const bool first = column == options_.source_column;
        (first ? source : target) = keep(field, first ? source_scratch_ : target_scratch_, column);
        // R writes a missing value without quotes and the text "NA" with them.
        if (options_.strings && is_missing(field) && !fields.in_quotes()) return "missing";
      } else if (static_cast<int>(column) == options_.ones_column) {
        if (!is_one(field)) return fault("ones", field);
      }
      if (column >= last_column_) {
        if (options_.extra_columns) {
          ++column;
          break;
        }
        if (column > last_column_ && !field.empty()) return "extra";
      }
    }
    if (fields.open_quote()) return "quote";
    if (column <= last_column_) return "columns";
    if (source.empty() || target.empty()) return "empty";
    return options_.strings ? add_strings(source, target, out) : add_integers(source, target, out);
  }

  const char* add_integers(std::string_view source, std::string_view target, Chunk& out) {
    std::int64_t u = 0;
    std::int64_t v = 0;
    if (!parse_id(source, u)) return fault("integer", source);
    if (!parse_id(target, v)) return fault("integer", target);
    out.sources.push_back(u);
    out.targets.push_back(v);
    return nullptr;
  }

  bool parse_id(std::string_view text, std::int64_t& value) const {
    return options_.whole ? parse_whole(text, value) : parse_integer(text, value);
  }

  const char* add_strings(std::string_view source, std::string_view target, Chunk& out) {
    if (!valid_utf8(source)) return fault("utf8", source);
    if (!valid_utf8(target)) return fault("utf8", target);
    out.source_numbers.push_back(names_.number(source));
    out.target_numbers.push_back(names_.number(target));
    return nullptr;
  }

  // Copies a field if it lies in a scratch string, which later columns overwrite.
  std::string_view keep(std::string_view field, std::string& own, unsigned column) const {
    if (field.data() != scratch_[std::min(column, 2u)].data()) return field;
    own.assign(field);
    return own;
  }

  const char* fault(const char* kind, std::string_view text) {
    bad_ = text;
    return kind;
  }

  const EdgeTextOptions& options_;
  Interner& names_;
  unsigned last_column_;
  std::array<std::string, 3> scratch_;
  std::string source_scratch_, target_scratch_;
  std::string_view bad_;
};

// Concatenates one array of all chunks; each is freed once it is copied.
template <class In, class Out, class Map>
void gather(std::vector<Chunk>& chunks, std::vector<In> Chunk::* part, std::vector<Out>& out,
            Map&& map) {
  std::size_t total = 0;
  for (const Chunk& chunk : chunks) total += (chunk.*part).size();
  out.clear();
  out.reserve(total);
  for (Chunk& chunk : chunks) {
    for (const In value : chunk.*part) out.push_back(map(value));
    std::vector<In>().swap(chunk.*part);
  }
}

}  // namespace

EdgeTextError::EdgeTextError(const char* kind_, std::uint64_t line_, std::string text_)
    : std::invalid_argument("line " + std::to_string(line_) + ": " + kind_),
      kind(kind_),
      line(line_),
      text(std::move(text_)) {}

struct EdgeText::State {
  EdgeTextOptions options;
  Interner names;
  std::vector<Chunk> chunks;
  std::uint64_t next_line = 1;
  std::size_t num_edges = 0;
  std::size_t num_comments = 0;
  std::size_t num_marked = 0;
};

EdgeText::EdgeText(const EdgeTextOptions& options) : state_(std::make_unique<State>()) {
  if (options.source_column == options.target_column) {
    throw std::invalid_argument("source and target are the same column");
  }
  state_->options = options;
  state_->next_line = options.first_line;
}

EdgeText::~EdgeText() = default;

std::size_t EdgeText::num_edges() const { return state_->num_edges; }
std::size_t EdgeText::num_comments() const { return state_->num_comments; }
std::size_t EdgeText::num_marked() const { return state_->num_marked; }

void EdgeText::feed(const char* text, std::size_t size, unsigned threads, Control& control) {
  const std::string_view all(text, size);
  std::vector<std::size_t> cuts{0};
  while (cuts.back() < size) {
    std::size_t cut = size;
    if (size - cuts.back() > kChunkBytes) {
      cut = all.find('\n', cuts.back() + kChunkBytes);
      cut = cut == std::string_view::npos ? size : cut + 1;
    }
    cuts.push_back(cut);
  }
  const std::size_t chunks = cuts.size() - 1;
  std::vector<Chunk> parsed(chunks);
  // Chunks are read in order, so all chunks before a bad one are read; later ones need not be.
  std::atomic<std::size_t> first_bad{chunks};
  parallel_for(threads, chunks, 1, control, [&](unsigned, std::size_t begin, std::size_t) {
    if (begin > first_bad.load(std::memory_order_relaxed)) return;
    LineReader reader(state_->options, state_->names);
    parsed[begin] = reader.read(all.substr(cuts[begin], cuts[begin + 1] - cuts[begin]));
    if (!parsed[begin].problem) return;
    std::size_t bad = first_bad.load(std::memory_order_relaxed);
    while (begin < bad && !first_bad.compare_exchange_weak(bad, begin, std::memory_order_relaxed)) {
    }
  });
  for (Chunk& chunk : parsed) {
    if (chunk.problem) {
      const Problem& problem = *chunk.problem;
      throw EdgeTextError(problem.kind, state_->next_line + problem.line - 1, problem.text);
    }
    state_->next_line += chunk.lines;
    state_->num_edges += chunk.sources.size() + chunk.source_numbers.size();
    state_->num_comments += chunk.comments;
    state_->num_marked += chunk.marked;
    state_->chunks.push_back(std::move(chunk));
  }
}

void EdgeText::take_integers(std::vector<std::int64_t>& sources,
                             std::vector<std::int64_t>& targets) {
  const auto same = [](std::int64_t value) { return value; };
  gather(state_->chunks, &Chunk::sources, sources, same);
  gather(state_->chunks, &Chunk::targets, targets, same);
  state_->chunks.clear();
}

void EdgeText::take_strings(std::vector<std::string>& names, std::vector<std::int32_t>& sources,
                            std::vector<std::int32_t>& targets) {
  std::array<std::vector<std::int32_t>, 64> ranks;
  names = state_->names.finish(ranks);
  const auto rank = [&](std::uint32_t number) {
    return ranks[number & 63][number >> Interner::kShardBits];
  };
  gather(state_->chunks, &Chunk::source_numbers, sources, rank);
  gather(state_->chunks, &Chunk::target_numbers, targets, rank);
  state_->chunks.clear();
}

}  // namespace dhilgt
