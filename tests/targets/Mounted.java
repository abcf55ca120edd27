/** Virtual threads that sleep and work deep in their stacks: when they go on, only their innermost frames are on the stack. Ends when
 * its standard input does. */
public class Mounted {
    static volatile boolean stop = false;
    static volatile long sink = 0;

    static long work(int count) {
        long x = count;
        for (int i = 0; i < count; i++) x = x * 6364136223846793005L + i;
        return x;
    }

    static void loop() {
        try {
            while (!stop) {
                Thread.sleep(1);
                sink += work(10_000_000);
            }
        } catch (InterruptedException e) {
            throw new RuntimeException("interrupted", e);
        }
    }

    static void down(int depth) {
        if (depth == 0) loop();
        else down(depth - 1);
        sink++;
    }

    public static void main(String[] arguments) throws Exception {
        Thread[] threads = new Thread[2];
        for (int i = 0; i < threads.length; i++) /* 21 and newer have it */
            threads[i] = (Thread)
                    Thread.class
                            .getMethod("startVirtualThread", Runnable.class)
                            .invoke(null, (Runnable) () -> down(20));
        System.out.println("ready ");
        while (System.in.read() >= 0) {}
        stop = true;
        for (Thread thread : threads) thread.join();
        System.out.println("done");
    }
}
