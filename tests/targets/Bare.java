/** Spends its time in C that has no unwind information: called from Java, it works or sleeps below a frame of 16 KB that is full of
 * old return addresses. Ends when its standard input does. */
public class Bare {
    static volatile boolean stop = false;

    static native void work(int mega);

    static native void sleep(int milliseconds);

    static void working() {
        while (!stop) work(10);
    }

    static void sleeping() {
        while (!stop) sleep(20);
    }

    public static void main(String[] arguments) throws Exception {
        System.load(arguments[0]);
        Thread[] threads = {new Thread(Bare::working, "working"), new Thread(Bare::sleeping, "sleeping")};
        for (Thread thread : threads) thread.start();
        System.out.println("ready ");
        while (System.in.read() >= 0) {}
        stop = true;
        for (Thread thread : threads) thread.join();
        System.out.println("done");
    }
}
