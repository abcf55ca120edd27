/** Asks for the interfaces of an object in turn, so that the last answer never serves: compiled by C1, it calls a stub each time. Ends
 * when its standard input does. */
public class Subtypes {
    interface First {}
    interface Second {}
    static class Both implements First, Second {}

    static volatile boolean stop = false;
    static volatile long sink = 0;

    static int ask(Object object) {
        return (object instanceof First ? 1 : 0) + (object instanceof Second ? 1 : 0);
    }

    static void work() {
        Object both = new Both();
        while (!stop) for (int i = 0; i < 1000; i++) sink += ask(both);
    }

    public static void main(String[] arguments) throws Exception {
        Thread thread = new Thread(Subtypes::work, "work");
        thread.start();
        System.out.println("ready ");
        while (System.in.read() >= 0) {}
        stop = true;
        thread.join();
        System.out.println("done");
    }
}
