// D: fibers on stacks of four pages, a collector that stops threads by signals and reads all stacks, exceptions.
// See zoo.h for what a round is.
import core.memory : GC;
import core.thread;
import std.conv : to;
import std.file : exists;
import std.stdio;

class Tree
{
    Tree left, right;

    this(int depth)
    {
        if (depth > 0)
        {
            left = new Tree(depth - 1);
            right = new Tree(depth - 1);
        }
    }

    int nodes() { return 1 + (left ? left.nodes : 0) + (right ? right.nodes : 0); }
}

int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

int workers(int first, int last)
{
    int sum = 0;
    Fiber[] alive;
    foreach (i; first .. last)
        (int i) {
            alive ~= new Fiber({
                foreach (k; 0 .. 20)
                {
                    try
                        throw new Exception(to!string(i * k));
                    catch (Exception step)
                        sum += to!int(step.msg);
                    Fiber.yield();
                }
            });
        }(i);
    while (alive.length)
    {
        Fiber[] rest;
        foreach (fiber; alive)
        {
            fiber.call();
            if (fiber.state != Fiber.State.TERM)
                rest ~= fiber;
        }
        alive = rest;
    }
    return sum;
}

bool isRight()
{
    int half;
    auto other = new Thread({ half = workers(0, 25); });
    other.start();
    auto own = workers(25, 50) + new Tree(12).nodes + fib(20);
    other.join();
    return own + half == 247706;
}

int main()
{
    if (!isRight())
        return 1;
    writeln("ready");
    stdout.flush();
    int rounds, wrong;
    while (exists("keep"))
    {
        rounds++;
        if (!isRight())
            wrong++;
    }
    writefln("rounds %d wrong %d", rounds, wrong);
    return 0;
}
