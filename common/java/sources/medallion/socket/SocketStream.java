package medallion.socket;

import medallion.streaming.LimitedStream;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.unsafe.types.UTF8String;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.ConnectException;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;

/**
 * The lines that a server sends. Their offsets count on from the checkpoint's, so a query goes on;
 * lines of a micro-batch that is planned and not written are gone with the process, and a replay of
 * it has no row.
 */
@SuppressWarnings("cast") // the compiler of set-up knows no type arguments
final class SocketStream extends LimitedStream {
    private static final int MOST_WAITING = 100000;
    private static final long SILENCE_MS = 1000L;

    private final String host;
    private final int port;
    private final boolean hasTime;

    /** Lines that are received and not committed; guarded by itself, as all that follows is. */
    private final ArrayList<Line> lines = new ArrayList<Line>();

    /** The offset of the first of them; -1 before the query has said where it goes on. */
    private long begin = -1L;

    private Socket socket;
    private String closed = "";
    private long heardAt;

    SocketStream(String host, int port, boolean hasTime) {
        this.host = host;
        this.port = port;
        this.hasTime = hasTime;
    }

    private void connect() {
        if (socket != null) {
            return;
        }
        try {
            socket = new Socket(host, port);
            heardAt = System.currentTimeMillis();
            final BufferedReader in =
                    new BufferedReader(
                            new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
            Thread thread =
                    new Thread("medallion-socket-" + host + ":" + port) {
                        @Override
                        public void run() {
                            receive(in);
                        }
                    };
            thread.setDaemon(true);
            thread.start();
        } catch (IOException error) {
            throw new UncheckedIOException(
                    new ConnectException(host + ":" + port + ": " + error.getMessage()));
        }
    }

    /** Receive lines until the server or the query ends the connection. */
    private void receive(BufferedReader in) {
        String why = "the server closed the connection";
        try {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                synchronized (lines) {
                    // What is not taken from the socket waits at the server.
                    while (lines.size() >= MOST_WAITING) {
                        lines.wait();
                    }
                    heardAt = System.currentTimeMillis();
                    lines.add(new Line(line, heardAt));
                }
            }
        } catch (IOException error) {
            why = String.valueOf(error.getMessage());
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        synchronized (lines) {
            closed = why;
        }
    }

    @Override
    public Offset initialOffset() {
        return new SocketOffset(0L);
    }

    @Override
    public Offset deserializeOffset(String json) {
        return new SocketOffset(Long.parseLong(json.trim()));
    }

    @Override
    public Offset latestOffset(Offset start, ReadLimit limit) {
        long from = start == null ? 0L : ((SocketOffset) start).lines;
        synchronized (lines) {
            if (begin < 0L) {
                begin = from;
            }
            connect();
            long end = begin + lines.size();
            if (end <= from && !closed.isEmpty() && !isBounded) {
                throw new UncheckedIOException(
                        new ConnectException(host + ":" + port + ": " + closed));
            }
            return new SocketOffset(Math.max(end, from));
        }
    }

    @Override
    protected void awaitAll() throws InterruptedException {
        synchronized (lines) {
            connect();
        }
        while (isHeard()) {
            Thread.sleep(50L);
        }
    }

    /** Whether lines still come: the server is connected, and one has come within a second. */
    private boolean isHeard() {
        synchronized (lines) {
            return closed.isEmpty()
                    && lines.size() < MOST_WAITING
                    && System.currentTimeMillis() - heardAt < SILENCE_MS;
        }
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
        Lines part = new Lines();
        synchronized (lines) {
            long from = Math.max(((SocketOffset) start).lines - begin, 0L);
            long until = Math.min(((SocketOffset) end).lines - begin, (long) lines.size());
            if (begin < 0L) {
                until = 0L; // a replay: its lines came to another process
            }
            for (long at = from; at < until; at++) {
                Line line = (Line) lines.get((int) at);
                part.texts.add(line.text);
                part.times.add(Long.valueOf(line.atMs));
            }
        }
        return new InputPartition[] {part};
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return new Factory(hasTime);
    }

    @Override
    public void commit(Offset end) {
        synchronized (lines) {
            long done = Math.min(((SocketOffset) end).lines - begin, (long) lines.size());
            if (begin >= 0L && done > 0L) {
                lines.subList(0, (int) done).clear();
                begin += done;
                lines.notifyAll();
            }
        }
    }

    @Override
    public void stop() {
        synchronized (lines) {
            if (socket != null) {
                try {
                    socket.close();
                } catch (IOException error) {
                    closed = String.valueOf(error.getMessage());
                }
            }
        }
    }

    private static final class Line {
        final String text;
        final long atMs;

        Line(String text, long atMs) {
            this.text = text;
            this.atMs = atMs;
        }
    }

    /** The lines of a micro-batch. */
    static final class Lines implements InputPartition {
        private static final long serialVersionUID = 1L;

        final ArrayList<String> texts = new ArrayList<String>();
        final ArrayList<Long> times = new ArrayList<Long>();
    }

    /** Makes the reader of a task. */
    static final class Factory implements PartitionReaderFactory {
        private static final long serialVersionUID = 1L;

        private final boolean hasTime;

        Factory(boolean hasTime) {
            this.hasTime = hasTime;
        }

        @Override
        public PartitionReader<InternalRow> createReader(InputPartition part) {
            return new Reader((Lines) part, hasTime);
        }
    }

    private static final class Reader implements PartitionReader<InternalRow> {
        private final Lines lines;
        private final boolean hasTime;
        private int at = -1;

        Reader(Lines lines, boolean hasTime) {
            this.lines = lines;
            this.hasTime = hasTime;
        }

        @Override
        public boolean next() {
            return ++at < lines.texts.size();
        }

        @Override
        public InternalRow get() {
            Object text = UTF8String.fromString((String) lines.texts.get(at));
            if (!hasTime) {
                return new GenericInternalRow(new Object[] {text});
            }
            long micros = ((Long) lines.times.get(at)).longValue() * 1000L;
            return new GenericInternalRow(new Object[] {text, Long.valueOf(micros)});
        }

        @Override
        public void close() {}
    }
}
