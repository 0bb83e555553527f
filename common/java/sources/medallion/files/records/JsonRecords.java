package medallion.files.records;

import medallion.faults.Fault;
import medallion.faults.Reasons;

import java.io.IOException;

/** Records that have columns, as JSON text. One that has none is a fault of its own. */
abstract class JsonRecords implements Records {
    /** Why no further record of a part of the file can be read; empty: they can be. */
    protected String why = "";

    private String field = "";

    /** The record as JSON text. */
    protected abstract byte[] text() throws IOException;

    /** The field at which the text of a record has failed. */
    protected abstract String failedAt();

    /** Go behind a record whose text has failed. */
    protected void pass() {}

    @Override
    public final byte[] value() throws IOException {
        field = "";
        if (!why.isEmpty()) {
            throw new Fault(Reasons.UNREADABLE_RECORD);
        }
        try {
            return text();
        } catch (IOException error) {
            throw failed(error);
        } catch (RuntimeException error) {
            throw failed(error);
        } catch (StackOverflowError error) {
            throw failed(error);
        }
    }

    private Fault failed(Throwable error) {
        field = failedAt();
        pass();
        return JsonText.faultOf(error);
    }

    @Override
    public final String why() {
        return field.isEmpty() ? why : "field " + field;
    }

    @Override
    public final byte[] firstLine() {
        return null;
    }

    @Override
    public final long place() {
        return -1L;
    }
}
