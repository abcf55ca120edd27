// The program in shapes.tar.xz: inlined functions, templates, names of Objective-C and Swift, a call through a stub.
// On Apple systems the name after `__asm` stands in the symbol table as it is here.
extern "C" int puts(const char *);
extern "C" void objc_like(int) __asm("-[Counter addTo:times:]");
extern "C" int swift_like(int) __asm("_$s4Demo7CounterV5totalyS2iF");

#define NOINLINE __attribute__((noinline))
volatile int sink;

namespace shapes {
template <class T> struct Box {
  T value;
  NOINLINE T twice(T other) const { return value * 2 + other; }
};
static inline int small(int x) {
  sink = x;
  return x * 3 + 1;
}
static inline int middle(int x) {
  return small(x) ^ small(x + 1);
}
NOINLINE static int hidden(int x) {
  int sum = 0;
  for (int i = 0; i < x; i++)
    sum += middle(i);
  return sum;
}
} // namespace shapes

NOINLINE void objc_like(int x) { sink = shapes::hidden(x) + 7; }

NOINLINE int swift_like(int x) {
  sink = x;
  return shapes::hidden(x) - 1;
}

int main(int argc, char **argv) {
  shapes::Box<long> box{argc};
  objc_like(argc);
  puts(argv[0]);
  return swift_like((int)box.twice(argc));
}
