package medallion.protobuf;

import medallion.readers.FieldPath;

/**
 * What is known while a value is read: the path of the field, and whether unknown fields are kept.
 */
final class Reading {
    final FieldPath path = new FieldPath();
    final boolean keepsUnknown;

    Reading(boolean keepsUnknown) {
        this.keepsUnknown = keepsUnknown;
    }
}
