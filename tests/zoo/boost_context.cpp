// Boost.Context: fibers switched in assembly, which have no frame above their first one. Argument: "fixed" for stacks of
// 8 KiB from malloc, "protected" for mapped ones with a guard page. Exceptions go through the fibers.
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstring>
#include <vector>

#include "zoo.h"

namespace ctx = boost::context;

struct Step {
    long value;
};

template <typename Allocator>
static ctx::fiber worker(Allocator allocator, long i, long &sum)
{
    return ctx::fiber(std::allocator_arg, allocator, [i, &sum](ctx::fiber &&scheduler) {
        for (long k = 0; k < STEPS; k++) {
            try {
                throw Step{i * k};
            } catch (const Step &step) {
                sum += step.value + fib(6) - 8;
            }
            scheduler = std::move(scheduler).resume();
        }
        return std::move(scheduler);
    });
}

template <typename Allocator> static bool round_is_right(Allocator allocator)
{
    long sum = tree_fell(tree_of(12)) + fib(20);
    std::vector<ctx::fiber> fibers;
    for (long i = 0; i < WORKERS; i++)
        fibers.push_back(worker(allocator, i, sum));
    for (bool is_over = false; !is_over;) {
        is_over = true;
        for (auto &fiber : fibers)
            if (fiber) {
                fiber = std::move(fiber).resume();
                is_over = false;
            }
    }
    return sum == ROUND_SUM;
}

template <typename Allocator> static int work(Allocator allocator)
{
    if (!round_is_right(allocator) || zoo_ready())
        return 1;
    long rounds = 0, wrong = 0;
    for (; zoo_goes_on(); rounds++)
        wrong += !round_is_right(allocator);
    return zoo_report(rounds, wrong);
}

int main(int argc, char **argv)
{
    if (argc > 1 && std::strcmp(argv[1], "protected") == 0)
        return work(ctx::protected_fixedsize_stack(16384));
    return work(ctx::fixedsize_stack(8192));
}
