// Four threads, each: worker → Mixer<N>::run (a template member that stays a function) → Mixer<N>::round and
// shapes::twist, both inlined into it. Built with -g, so the inlined functions can be named.
#include "target.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

static std::atomic<bool> stop{false};

namespace shapes {

__attribute__((always_inline)) inline uint64_t twist(uint64_t value)
{
    for (int i = 0; i < 64; i++)
        value = (value ^ (value >> 29)) * 0xbf58476d1ce4e5b9ULL;
    return value;
}

template <int Rounds> class Mixer {
public:
    explicit Mixer(uint64_t seed) : state_(seed) {}

    NOINLINE uint64_t run(const std::string &label)
    {
        for (int i = 0; i < 20000; i++)
            round();
        return state_ + label.size();
    }

private:
    __attribute__((always_inline)) void round()
    {
        for (int i = 0; i < Rounds; i++)
            state_ = twist(state_) + 1;
    }

    uint64_t state_;
};

} // namespace shapes

static std::atomic<uint64_t> sink{0};

NOINLINE static void worker(int index)
{
    std::string name = "mixer-" + std::to_string(index);
    pthread_setname_np(pthread_self(), name.c_str());
    shapes::Mixer<3> three(static_cast<uint64_t>(index));
    shapes::Mixer<5> five(static_cast<uint64_t>(index));
    while (!stop) {
        sink += three.run(name);
        sink += five.run(name);
    }
}

int main()
{
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back(worker, i);
    target_ready("");
    target_wait_for_stop();
    stop = true;
    for (auto &thread : threads)
        thread.join();
    std::printf("mixed %llu\n", static_cast<unsigned long long>(sink.load() != 0));
    return 0;
}
