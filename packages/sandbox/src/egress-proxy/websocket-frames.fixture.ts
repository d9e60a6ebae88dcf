/** A frame as a server sends it; by default the last of a text message. */
export function frame(payload: string | Uint8Array, first = 0x81): Buffer {
  const bytes = Buffer.from(typeof payload === 'string' ? Buffer.from(payload, 'latin1') : payload)
  const head = bytes.length < 126 ? [bytes.length] : [126, bytes.length >> 8, bytes.length & 0xff]
  return Buffer.concat([Buffer.from([first, ...head]), bytes])
}
