package medallion.files.records;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import medallion.files.Cuts;
import medallion.readers.Spec;
import medallion.text.CsvReader;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.compress.BZip2Codec;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.GzipCodec;
import org.apache.hadoop.util.ReflectionUtils;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.Serializable;
import java.util.Locale;
import java.util.zip.ZipException;

/** Opens a file of any format, and counts its records. */
public final class OpenFile implements Serializable {
    private static final long serialVersionUID = 1L;

    /** Names of files that are compressed in a way that is not read. */
    private static final String[] OTHERS = {
        ".7z",
        ".br",
        ".deflate",
        ".lz",
        ".lz4",
        ".lzma",
        ".lzo",
        ".rar",
        ".snappy",
        ".sz",
        ".tar",
        ".tgz",
        ".xz",
        ".z",
        ".zip",
        ".zst",
        ".zstd"
    };

    private final String format;
    private final boolean skipsFirst;
    private final boolean hasNames;
    private final String lineReaders;

    /**
     * @param format {@code jsonl}, {@code csv}, {@code text}, {@code parquet}, {@code avro} or
     *     {@code orc}
     * @param header whether the first line of a CSV file is no record: {@code true}: it names the
     *     columns; {@code skip}: it is passed over; {@code false}: it is a record
     * @param lineReaders the declarations of those that read the lines, as a JSON array of texts
     */
    public OpenFile(String format, String header, String lineReaders) {
        this.format = format;
        this.lineReaders = lineReaders;
        this.hasNames = header.equals("true");
        this.skipsFirst = hasNames || header.equals("skip");
    }

    /** The records of a file from one on, by the nearest cut before it. */
    public Records at(Path path, Configuration conf, long row, long cutRow, long cut)
            throws IOException {
        if (isOfColumns()) {
            ColumnRecords records = columns(path, conf);
            records.skip(row);
            return records;
        }
        if (format.equals("avro")) {
            AvroRecords records = new AvroRecords(path, conf, cut);
            records.skip(row - cutRow);
            return records;
        }
        Records records = lines(path, conf, cut);
        long at = cutRow;
        while (at < row && records.next()) {
            at++;
        }
        return records;
    }

    /** The number of records of a file; notes the cuts on the way. */
    public long count(Path path, Configuration conf, Cuts cuts) throws IOException {
        if (isOfColumns()) {
            ColumnRecords records = columns(path, conf);
            try {
                return records.count();
            } finally {
                records.close();
            }
        }
        if (format.equals("avro")) {
            return AvroRecords.count(path, conf, cuts);
        }
        Records records = lines(path, conf, 0L);
        try {
            refuseWithoutNames(records.firstLine());
            long rows = 0L;
            long place = records.place();
            while (records.next()) {
                cuts.note(rows, place);
                place = records.place();
                rows++;
            }
            return rows;
        } finally {
            records.close();
        }
    }

    /** A first line that has no name of a declared column may be a record, which would be lost. */
    private void refuseWithoutNames(byte[] line) throws IOException {
        JsonNode readers = new ObjectMapper().readTree(lineReaders);
        if (line == null || readers.size() == 0) {
            return;
        }
        String wanted = "";
        for (JsonNode each : readers) {
            Spec spec = new Spec(each.asText());
            if (new CsvReader(spec).knowsAnyOf(line)) {
                return;
            }
            wanted += (wanted.isEmpty() ? "" : "; or ") + String.join(", ", spec.root.labels);
        }
        throw new ContentException(
                "its first line has none of the names " + wanted + ": write a line of names there");
    }

    /**
     * Whether an error says that a file is not what its name and the declaration say, and not that
     * it could not be read this time.
     */
    public boolean isOfContent(IOException error, Path path, Configuration conf) {
        if (error instanceof EOFException
                || error instanceof ZipException
                || error instanceof ContentException
                || isOfThrift(error)
                || format.equals("orc") && OrcRecords.isOfContent(error)) {
            return true;
        }
        // Decompressors throw no class of their own.
        return error.getClass() == IOException.class
                && codec(path, conf) != null
                && !String.valueOf(error.getMessage()).contains("Input/output error");
    }

    /** Whether the parts of a Parquet file that say where its columns are do not decode. */
    static boolean isOfThrift(Throwable error) {
        for (Throwable at = error; at != null; at = at.getCause()) {
            if (at.getClass().getName().contains(".thrift.")) {
                return true;
            }
        }
        return false;
    }

    private boolean isOfColumns() {
        return format.equals("parquet") || format.equals("orc");
    }

    private ColumnRecords columns(Path path, Configuration conf) throws IOException {
        if (format.equals("orc")) {
            return new OrcRecords(path, conf);
        }
        return new ParquetRecords(path, conf);
    }

    private boolean isOfLines() {
        return format.equals("jsonl") || format.equals("csv") || format.equals("text");
    }

    /** How the lines of a file are compressed, by its name in any case; null: they are not. */
    private CompressionCodec codec(Path path, Configuration conf) {
        String name = path.getName().toLowerCase(Locale.ROOT);
        if (!isOfLines()) {
            return null;
        }
        if (name.endsWith(".gz")) {
            return (CompressionCodec) (Object) ReflectionUtils.newInstance(GzipCodec.class, conf);
        }
        if (name.endsWith(".bz2")) {
            return (CompressionCodec) (Object) ReflectionUtils.newInstance(BZip2Codec.class, conf);
        }
        return null;
    }

    private static void refuseOtherCompression(Path path) throws IOException {
        String name = path.getName().toLowerCase(Locale.ROOT);
        for (int at = 0; at < OTHERS.length; at++) {
            if (name.endsWith(OTHERS[at])) {
                throw new ContentException(
                        "files that end with "
                                + OTHERS[at]
                                + " are not decompressed; .gz and .bz2 are");
            }
        }
    }

    /** The line of names of a file that is not compressed. */
    private byte[] firstLine(Path path, Configuration conf) throws IOException {
        Records begin = lines(path, conf, 0L);
        try {
            return begin.firstLine();
        } finally {
            begin.close();
        }
    }

    private Records lines(Path path, Configuration conf, long begin) throws IOException {
        refuseOtherCompression(path);
        CompressionCodec codec = codec(path, conf);
        FSDataInputStream file = path.getFileSystem(conf).open(path);
        InputStream in = file;
        if (codec != null) {
            in = codec.createInputStream(file);
        } else if (begin > 0L) {
            file.seek(begin);
        }
        boolean isOpen = false;
        try {
            Lines lines = new Lines(in, begin, format, codec == null);
            if (begin > 0L) {
                lines.named(hasNames ? firstLine(path, conf) : null);
            } else if (skipsFirst) {
                lines.skipFirst(hasNames);
            }
            isOpen = true;
            return lines;
        } finally {
            if (!isOpen) {
                in.close();
            }
        }
    }
}
