import { mongo } from 'mongoose';

/**
 * An ObjectId of the driver that writes it: the host's mongoose's. A driver refuses an ObjectId of another major version,
 * and that of `mongodb` or Agenda's backend here is not mongoose 8's.
 * @param text 24 hexadecimal digits
 */
export function objectId(text: string): mongo.ObjectId {
  return new mongo.ObjectId(text);
}

/** Whether a text is that of an ObjectId. */
export function isObjectId(text: string): boolean {
  return mongo.ObjectId.isValid(text);
}
