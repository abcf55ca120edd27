// C++20: coroutines, whose frames are on the heap, exceptions through many frames, threads, virtual calls.
#include <coroutine>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "zoo.h"

struct Steps {
    struct promise_type {
        long value = 0;

        Steps get_return_object() { return Steps{std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(long next)
        {
            value = next;
            return {};
        }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };

    std::coroutine_handle<promise_type> handle;
};

static Steps steps(long i)
{
    for (long k = 0; k < STEPS; k++)
        co_yield i * k;
}

struct Node {
    std::unique_ptr<Node> left, right;

    explicit Node(int depth)
    {
        if (depth > 0) {
            left = std::make_unique<Node>(depth - 1);
            right = std::make_unique<Node>(depth - 1);
        }
    }
    virtual ~Node() = default;
    virtual long count() const { return 1 + (left ? left->count() : 0) + (right ? right->count() : 0); }
};

static NOINLINE long thrown_from(int depth, long value)
{
    if (depth == 0)
        throw value;
    return thrown_from(depth - 1, value) + 1;
}

static NOINLINE long workers(long first, long last)
{
    long sum = 0;
    for (long i = first; i < last; i++) {
        Steps worker = steps(i);
        for (worker.handle.resume(); !worker.handle.done(); worker.handle.resume())
            try {
                thrown_from(5, worker.handle.promise().value);
            } catch (long value) {
                sum += value;
            }
        worker.handle.destroy();
    }
    return sum;
}

static bool round_is_right()
{
    long half = 0;
    std::thread other([&half] { half = workers(0, 25); });
    long sum = workers(25, WORKERS) + Node(12).count() + fib(20);
    other.join();
    return sum + half == ROUND_SUM;
}

int main()
{
    if (!round_is_right() || tree_fell(tree_of(3)) != 15 || zoo_ready())
        return 1;
    long rounds = 0, wrong = 0;
    for (; zoo_goes_on(); rounds++)
        wrong += !round_is_right();
    return zoo_report(rounds, wrong);
}
