/** Two busy threads, one in compiled code and one that allocates, and one that sleeps. Ends when its standard input does. */
public class Busy {
    static volatile boolean stop = false;
    static volatile long sink = 0;

    static int fib(int n) {
        return n < 2 ? n : fib(n - 1) + fib(n - 2);
    }

    static void compute() {
        while (!stop) sink += fib(20);
    }

    static void allocate() {
        while (!stop) {
            StringBuilder text = new StringBuilder();
            for (int i = 0; i < 200; i++) text.append(i);
            sink += text.toString().hashCode();
        }
    }

    static void idle() {
        while (!stop) {
            try {
                Thread.sleep(20);
            } catch (InterruptedException e) {
                throw new RuntimeException("interrupted", e);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Thread[] threads = {
            new Thread(Busy::compute, "compute"), new Thread(Busy::allocate, "allocate"), new Thread(Busy::idle, "idle"),
        };
        for (Thread thread : threads) thread.start();
        System.out.println("ready ");
        while (System.in.read() >= 0) {}
        stop = true;
        for (Thread thread : threads) thread.join();
        System.out.println("done " + (sink != 0 ? "busy" : "idle"));
    }
}
