package medallion.files.records;

import medallion.faults.Fault;
import medallion.faults.Reasons;

import org.apache.hadoop.hive.ql.exec.vector.BytesColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DecimalColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DoubleColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ListColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.MapColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.StructColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.TimestampColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.UnionColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.orc.TypeDescription;

import java.io.IOException;
import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;

/** Records of ORC files as JSON text. */
@SuppressWarnings("cast") // the compiler of set-up knows no type arguments
final class OrcJson {
    private final JsonText json = new JsonText();

    /** Throws a fault for a record without an exact form; {@code place} then names the field. */
    byte[] of(TypeDescription schema, VectorizedRowBatch batch, int row) throws IOException {
        json.open();
        fields(schema, batch.cols, row);
        return json.closed();
    }

    String place() {
        return json.path();
    }

    /** The name that two fields of one struct have; null if there is none. */
    static String nameTwice(TypeDescription type) {
        List<TypeDescription> children = type.getChildren();
        HashSet<String> seen = new HashSet<String>();
        for (int at = 0; children != null && at < children.size(); at++) {
            if (type.getCategory() == TypeDescription.Category.STRUCT) {
                String name = (String) type.getFieldNames().get(at);
                if (!seen.add(name)) {
                    return name;
                }
            }
            String inner = nameTwice((TypeDescription) children.get(at));
            if (inner != null) {
                return inner;
            }
        }
        return null;
    }

    private void fields(TypeDescription type, ColumnVector[] columns, int row) throws IOException {
        json.startObject();
        for (int field = 0; field < columns.length; field++) {
            json.name((String) type.getFieldNames().get(field));
            value((TypeDescription) type.getChildren().get(field), columns[field], row);
        }
        json.endObject();
    }

    private void value(TypeDescription type, ColumnVector column, int row) throws IOException {
        int at = column.isRepeating ? 0 : row;
        if (!column.noNulls && column.isNull[at]) {
            json.nothing();
            return;
        }
        switch (type.getCategory()) {
            case STRUCT:
                fields(type, ((StructColumnVector) column).fields, at);
                return;
            case LIST:
                list(type, (ListColumnVector) column, at);
                return;
            case MAP:
                map(type, (MapColumnVector) column, at);
                return;
            case UNION:
                UnionColumnVector union = (UnionColumnVector) column;
                int tag = union.tags[at];
                value((TypeDescription) type.getChildren().get(tag), union.fields[tag], at);
                return;
            default:
                json.scalar(scalar(type, column, at));
        }
    }

    private void list(TypeDescription type, ListColumnVector column, int row) throws IOException {
        TypeDescription element = (TypeDescription) type.getChildren().get(0);
        json.startArray();
        for (long each = 0L; each < column.lengths[row]; each++) {
            value(element, column.child, (int) (column.offsets[row] + each));
        }
        json.endArray();
    }

    private void map(TypeDescription type, MapColumnVector column, int row) throws IOException {
        TypeDescription named = (TypeDescription) type.getChildren().get(0);
        TypeDescription valued = (TypeDescription) type.getChildren().get(1);
        boolean isScalar = named.getChildren() == null || named.getChildren().isEmpty();
        HashSet<String> seen = new HashSet<String>();
        json.startObject();
        for (long each = 0L; each < column.lengths[row]; each++) {
            int entry = (int) (column.offsets[row] + each);
            int at = column.keys.isRepeating ? 0 : entry;
            if (!isScalar || !column.keys.noNulls && column.keys.isNull[at]) {
                throw new Fault(Reasons.NO_JSON_FORM);
            }
            String key = JsonText.key(scalar(named, column.keys, at));
            if (!seen.add(key)) {
                throw new Fault(Reasons.DUPLICATE_KEY);
            }
            json.name(key);
            value(valued, column.values, entry);
        }
        json.endObject();
    }

    private static Object scalar(TypeDescription type, ColumnVector column, int at) {
        switch (type.getCategory()) {
            case BOOLEAN:
                return Boolean.valueOf(((LongColumnVector) column).vector[at] != 0L);
            case BYTE:
            case SHORT:
            case INT:
            case LONG:
                return Long.valueOf(((LongColumnVector) column).vector[at]);
            case DATE:
                return JsonText.day(((LongColumnVector) column).vector[at]);
            case FLOAT:
                return Float.valueOf((float) ((DoubleColumnVector) column).vector[at]);
            case DOUBLE:
                return Double.valueOf(((DoubleColumnVector) column).vector[at]);
            case DECIMAL:
                BigDecimal number =
                        ((DecimalColumnVector) column)
                                .vector[at]
                                .getHiveDecimal()
                                .bigDecimalValue();
                return number.setScale(Math.max(number.scale(), type.getScale()));
            case STRING:
            case VARCHAR:
            case CHAR:
                return JsonText.text(bytes((BytesColumnVector) column, at));
            case BINARY:
                return bytes((BytesColumnVector) column, at);
            case TIMESTAMP:
                Instant local = time((TimestampColumnVector) column, at);
                return LocalDateTime.ofInstant(local, ZoneOffset.UTC).toString();
            case TIMESTAMP_INSTANT:
                return time((TimestampColumnVector) column, at).toString();
            default:
                throw new Fault(Reasons.NO_JSON_FORM);
        }
    }

    private static byte[] bytes(BytesColumnVector column, int at) {
        int start = column.start[at];
        return Arrays.copyOfRange(column.vector[at], start, start + column.length[at]);
    }

    /**
     * The vector has the milliseconds of a time, and all of its nanoseconds in a second; before
     * 1970 some writers count the latter back from the next second.
     */
    private static Instant time(TimestampColumnVector column, int at) {
        long nanos = (long) column.nanos[at];
        long ms = column.time[at];
        return Instant.ofEpochSecond(nanos < 0L ? ms / 1000L : Math.floorDiv(ms, 1000L), nanos);
    }
}
