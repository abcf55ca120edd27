import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;
import java.util.function.IntUnaryOperator;

/**
 * Threads "parked-0", "parked-1" … that sleep for good below many kinds of calls: interpreted, compiled, inlined, through
 * interfaces, lambdas, streams, reflection, constructors and class initialisers, synchronised, with exceptions under way. Half of them build
 * their stack at once, half of them after the calls were compiled. Arguments: number of threads, depth, calls to warm up.
 * Ends when its standard input does.
 */
public class Stacks {
    interface Step {
        int go(int depth, Random random);
    }

    static volatile long sink;
    static final ThreadLocal<Boolean> stays = ThreadLocal.withInitial(() -> false);
    static final CountDownLatch never = new CountDownLatch(1);
    static final Object monitor = new Object();
    static CountDownLatch asleep;

    static class Even implements Step {
        public int go(int depth, Random random) {
            return step(depth, random) + 1;
        }
    }

    static class Odd implements Step {
        public int go(int depth, Random random) {
            int x = small(depth);
            return Stacks.step(depth, random) + x;
        }

        final int small(int n) {
            return n & 3;
        }
    }

    static class Made {
        final int value;

        Made(int depth, Random random) {
            value = step(depth, random);
        }
    }

    static final Step[] steps = {new Even(), new Odd()};

    static int step(int depth, Random random) {
        if (depth <= 0) return end(random);
        Step next = steps[depth & 1];
        switch (random.nextInt(9)) {
            case 0:
                return next.go(depth - 1, random);
            case 1:
                IntUnaryOperator lambda = x -> steps[x & 1].go(x, random);
                return lambda.applyAsInt(depth - 1);
            case 2:
                return List.of(1).stream().mapToInt(i -> next.go(depth - 1, random)).sum();
            case 3:
                synchronized (new Object()) {
                    return next.go(depth - 1, random);
                }
            case 4:
                try {
                    return (int) Stacks.class.getDeclaredMethod("step", int.class, Random.class).invoke(null, depth - 1, random);
                } catch (ReflectiveOperationException e) {
                    throw new RuntimeException(e);
                }
            case 5:
                return new Made(depth - 1, random).value;
            case 6:
                try {
                    throw new IllegalStateException("as wanted");
                } catch (IllegalStateException e) {
                    return wide(1, 2L, 3f, 4.0, e, (byte) 5, 'c', depth, random);
                }
            default:
                return guarded(depth, random);
        }
    }

    static int guarded(int depth, Random random) {
        try {
            return steps[depth & 1].go(depth - 1, random);
        } finally {
            sink++;
        }
    }

    static int wide(int a, long b, float c, double d, Object e, byte f, char g, int depth, Random random) {
        return step(depth - 1, random) + a + (int) b + (int) c + (int) d + f + g;
    }

    static int end(Random random) {
        if (stays.get()) sleep(random.nextInt(4));
        return (int) (sink = random.nextInt());
    }

    static void sleep(int kind) {
        asleep.countDown();
        try {
            while (true) {
                if (kind == 0) Thread.sleep(1_000_000_000L);
                else if (kind == 1) LockSupport.parkNanos(1_000_000_000_000_000L);
                else if (kind == 2) never.await();
                else
                    synchronized (monitor) {
                        monitor.wait();
                    }
            }
        } catch (InterruptedException e) {
            throw new RuntimeException(e);
        }
    }

    static Thread start(int number, int depth) {
        Thread thread = new Thread(() -> {
            stays.set(true);
            Random random = new Random(number);
            while (true) step(depth / 2 + random.nextInt(depth), random);
        }, "parked-" + number);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[0]), depth = Integer.parseInt(arguments[1]);
        asleep = new CountDownLatch(count);
        for (int i = 0; i < count / 2; i++) start(i, depth);
        Random random = new Random(5);
        for (int i = 0; i < Integer.parseInt(arguments[2]); i++) step(random.nextInt(depth), random);
        for (int i = count / 2; i < count; i++) start(i, depth);
        asleep.await();
        Thread.sleep(200);
        System.out.println("ready ");
        while (System.in.read() >= 0) {}
        System.out.println("done");
    }
}
