// Mono: a JIT, a collector that stops threads by signals, null checks by SIGSEGV, finalizers, exceptions, iterators.
// Two threads work at the same time. See zoo.h for what a round is.
using System;
using System.Collections.Generic;
using System.IO;
using System.Threading;

class Mono
{
    class Tree
    {
        public Tree Left, Right;

        public Tree(int depth)
        {
            if (depth > 0) { Left = new Tree(depth - 1); Right = new Tree(depth - 1); }
        }

        public int Nodes()
        {
            return 1 + (Left == null ? 0 : Left.Nodes()) + (Right == null ? 0 : Right.Nodes());
        }
    }

    class Finalized
    {
        byte[] weight = new byte[1000];
        ~Finalized() { weight[0]++; Interlocked.Increment(ref finalized); }
    }

    static long rounds, wrong, finalized;

    static int Fib(int n) { return n < 2 ? n : Fib(n - 1) + Fib(n - 2); }

    static IEnumerable<int> Worker(int i)
    {
        for (int k = 0; k < 20; k++) yield return i * k;
    }

    // Null references are found by the processor's fault, not by a comparison.
    static int CaughtNulls(int count)
    {
        int caught = 0;
        Tree none = null;
        for (int i = 0; i < count; i++)
            try { none = none.Left; } catch (NullReferenceException) { caught++; }
        return caught;
    }

    static bool RoundIsRight()
    {
        int sum = new Tree(12).Nodes() + Fib(20);
        for (int i = 0; i < 50; i++) foreach (int value in Worker(i)) sum += value;
        new Finalized();
        var words = new Dictionary<string, int>();
        for (int i = 0; i < 1000; i++) words["word " + i] = i;
        return sum == 247706 && CaughtNulls(20) == 20 && words["word 999"] == 999;
    }

    static void Work()
    {
        while (File.Exists("keep"))
        {
            if (!RoundIsRight()) Interlocked.Increment(ref wrong);
            Interlocked.Increment(ref rounds);
        }
    }

    static int Main()
    {
        if (!RoundIsRight()) return 1;
        Console.WriteLine("ready");
        var second = new Thread(Work);
        second.Start();
        Work();
        second.Join();
        Console.WriteLine("rounds {0} wrong {1}", rounds, wrong);
        return 0;
    }
}
