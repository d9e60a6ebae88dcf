import { randomBytes } from 'node:crypto'

/** One part of a multipart body. */
export interface Part {
  readonly name: string
  readonly data: Uint8Array
  /** Makes the part a file. */
  readonly filename?: string
  /** Plain text when absent. */
  readonly mediaType?: string
}

/** Writes parts between boundaries that occur in none of them; names are escaped as browsers do. */
export function encodeMultipart(
  parts: readonly Part[],
  mediaType: string,
  random: () => string = () => randomBytes(18).toString('hex'),
): { readonly data: Uint8Array; readonly mediaType: string } {
  let boundary = `gantry-${random()}`
  while (parts.some(({ data }) => Buffer.from(data.buffer, data.byteOffset, data.byteLength).includes(boundary))) {
    boundary = `gantry-${random()}`
  }
  const pieces = parts.flatMap((part) => [Buffer.from(`--${boundary}\r\n${headersOf(part)}\r\n`), part.data, lineEnd])
  const data = Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)])
  return { data, mediaType: `${mediaType}; boundary=${boundary}` }
}

const lineEnd = Buffer.from('\r\n')

function headersOf({ name, filename, mediaType }: Part): string {
  const file = filename === undefined ? '' : `; filename="${escapeName(filename)}"`
  const type = mediaType === undefined ? '' : `Content-Type: ${mediaType}\r\n`
  return `Content-Disposition: form-data; name="${escapeName(name)}"${file}\r\n${type}`
}

const escapes: { readonly [character: string]: string } = { '\r': '%0D', '\n': '%0A', '"': '%22' }

/** A name can neither end its quotes nor its line. */
function escapeName(name: string): string {
  return name.replace(/[\r\n"]/g, (character) => escapes[character] ?? '')
}
