import java.util.concurrent.CyclicBarrier;

/**
 * A writer that holds a monitor nearly all the time, and readers that wait for it; or threads in a deadlock.
 *
 * <p>{@code Monitors held} or {@code Monitors deadlock}. The report says how long the writer was in sumsUp and in sleepsInside,
 * with the monitor.
 */
public class Monitors {
    static final long HELD_MS = 10;
    static final Object first = new Object();
    static final Object second = new Object();
    static volatile boolean isOver;
    static volatile long result = 1;
    static long computedNs;
    static long sleptNs;

    static void sumsUp() {
        long untilNs = System.nanoTime() + HELD_MS * 1_000_000, state = result;
        while (System.nanoTime() < untilNs) {
            for (int i = 0; i < 1000; i++) state = state * 3 + 1;
        }
        result = state;
    }

    static void sleepsInside() throws InterruptedException {
        Thread.sleep(HELD_MS);
    }

    static void writes() throws InterruptedException {
        while (!isOver) {
            synchronized (first) {
                long beganNs = System.nanoTime();
                sumsUp();
                sleepsInside();
                // What it slept longer, it waited for a CPU: time of the method that ran last.
                computedNs += System.nanoTime() - beganNs - HELD_MS * 1_000_000;
                sleptNs += HELD_MS * 1_000_000;
            }
            Thread.sleep(1);
        }
    }

    static void reads() {
        synchronized (first) {
            result++;
        }
    }

    static void readsOn() throws InterruptedException {
        while (!isOver) {
            reads();
            Thread.sleep(0, 50_000);
        }
    }

    static void takes(Object one, Object other, CyclicBarrier both) throws Exception {
        synchronized (one) {
            both.await();
            synchronized (other) {
                result++;
            }
        }
    }

    interface Body {
        void run() throws Exception;
    }

    static Thread start(String name, Body body) {
        Thread thread = new Thread(() -> {
            try {
                body.run();
            } catch (Exception error) {
                throw new RuntimeException(error);
            }
        }, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    public static void main(String[] arguments) throws Exception {
        Thread[] threads = {};
        if (arguments[0].equals("deadlock")) {
            CyclicBarrier both = new CyclicBarrier(3);
            start("one", () -> takes(first, second, both));
            start("two", () -> takes(second, first, both));
            both.await();
            start("three", Monitors::reads);
        } else {
            threads = new Thread[] {
                start("writer", Monitors::writes), start("reader 1", Monitors::readsOn), start("reader 2", Monitors::readsOn),
            };
        }
        System.out.println("ready");
        while (System.in.read() >= 0) {}
        isOver = true;
        for (Thread thread : threads) thread.join();
        System.out.println("computed_ns=" + computedNs + " slept_ns=" + sleptNs);
    }
}
