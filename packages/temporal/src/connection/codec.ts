import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { promisify } from 'node:util'
import { deflateRaw, inflateRaw } from 'node:zlib'
import type { Payload, PayloadCodec } from '@temporalio/common'

/** What the codec binds a payload to. */
export interface PayloadPlace {
  readonly namespace: string
  readonly workflowId?: string
  /** It stays in this process. */
  readonly isLocal?: boolean
}

/** Temporal refuses a payload of more than 2 MiB; the rest is for its metadata. */
export const mostPayloadBytes = 2_000_000
/** A payload that unpacks to more than this is refused, so that a small one cannot fill the memory. */
const mostPlainBytes = 67_108_864
const compressedFrom = 1_024
const encoding = Buffer.from('binary/gantry')
const headBytes = 4
const nonceBytes = 12
const tagBytes = 16
const [plainMark, sealedMark] = [0, 1]
const deflate = promisify(deflateRaw)
const inflate = promisify(inflateRaw)

/** A payload that the server would refuse; thrown before anything is sent. */
export class PayloadTooLarge extends Error {
  override readonly name = 'PayloadTooLarge'
  readonly bytes: number

  constructor(bytes: number) {
    super(`The payload has ${bytes} bytes; Temporal takes ${mostPayloadBytes}.`)
    this.bytes = bytes
  }
}

/**
 * Compresses payloads, and with keys seals them by AES-256-GCM, bound to the namespace and the workflow. The first key
 * seals, each one opens. With keys a payload that none of them sealed for its place reads as undefined, so that what
 * others write to the namespace never counts and cannot stop a workflow either; the readers refuse undefined.
 */
export function createCodec(keys: readonly Uint8Array[]): PayloadCodec {
  const named = keys.map((key) => ({ key, id: keyId(key) }))
  const [own] = named
  const encodeOne = async (payload: Payload, place: string, most: number): Promise<Payload> => {
    const plain = packed(payload)
    const bytes = await deflate(plain, { level: 1 })
    const whole = own === undefined ? marked(plainMark, bytes) : seal(own.key, own.id, bytes, place)
    if (whole.length > most) throw new PayloadTooLarge(whole.length)
    return { metadata: { encoding }, data: whole }
  }
  const decodeOne = async (payload: Payload, place: string): Promise<Payload> => {
    if (!isOurs(payload)) return own === undefined ? payload : nothing
    try {
      const bytes = Buffer.from(payload.data ?? [])
      const body = bytes[0] === sealedMark ? open(named, bytes.subarray(1), place) : unsealed(bytes)
      return unpacked(await inflate(body, { maxOutputLength: mostPlainBytes }))
    } catch {
      return nothing
    }
  }
  const unsealed = (bytes: Buffer): Buffer => {
    if (own !== undefined || bytes[0] !== plainMark) throw new Error('not sealed')
    return bytes.subarray(1)
  }
  return {
    encode: (payloads, context) =>
      Promise.all(
        payloads.map((one) =>
          own === undefined && (one.data?.length ?? 0) < compressedFrom
            ? one
            : encodeOne(one, placeText(context), mostOf(context)),
        ),
      ),
    decode: (payloads, context) => Promise.all(payloads.map((one) => decodeOne(one, placeText(context)))),
  }
}

/** Reads as undefined. */
const nothing: Payload = { metadata: { encoding: Buffer.from('binary/null') } }

function isOurs({ metadata }: Payload): boolean {
  const found = metadata?.encoding
  return found !== undefined && found !== null && encoding.equals(found)
}

function mostOf(place: PayloadPlace | undefined): number {
  return place?.isLocal === true ? mostPlainBytes : mostPayloadBytes
}

function placeText(place: PayloadPlace | undefined): string {
  return place === undefined ? '' : JSON.stringify([place.namespace, place.workflowId ?? ''])
}

/** The metadata as JSON with its length before it, then the data. */
function packed({ metadata, data }: Payload): Buffer {
  const entries = Object.entries(metadata ?? {}).map(([name, value]) => [name, Buffer.from(value).toString('base64')])
  const head = Buffer.from(JSON.stringify(entries))
  const length = Buffer.alloc(headBytes)
  length.writeUInt32BE(head.length)
  return Buffer.concat([length, head, data ?? Buffer.alloc(0)])
}

function unpacked(bytes: Buffer): Payload {
  const end = headBytes + bytes.readUInt32BE(0)
  const entries: unknown = JSON.parse(bytes.subarray(headBytes, end).toString())
  if (!Array.isArray(entries)) throw new Error('no metadata')
  const metadata = Object.fromEntries(
    entries.map(([name, value]: readonly unknown[]) => [String(name), Buffer.from(String(value), 'base64')]),
  )
  return { metadata, data: bytes.subarray(end) }
}

function marked(mark: number, ...parts: readonly Uint8Array[]): Buffer {
  return Buffer.concat([Buffer.of(mark), ...parts])
}

/** Of a key, for finding the one that sealed a payload; it says nothing about the key. */
function keyId(key: Uint8Array): Buffer {
  return createHash('sha256').update('gantry temporal key id').update(key).digest().subarray(0, 8)
}

function seal(key: Uint8Array, id: Buffer, bytes: Uint8Array, place: string): Buffer {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv('aes-256-gcm', key, nonce)
  cipher.setAAD(Buffer.from(place))
  const sealed = Buffer.concat([cipher.update(bytes), cipher.final()])
  return marked(sealedMark, id, nonce, sealed, cipher.getAuthTag())
}

interface NamedKey {
  readonly key: Uint8Array
  readonly id: Buffer
}

function open(keys: readonly NamedKey[], bytes: Buffer, place: string): Buffer {
  const found = keys.find(({ id }) => id.equals(bytes.subarray(0, id.length)))
  if (found === undefined) throw new Error('another key')
  const rest = bytes.subarray(found.id.length)
  const decipher = createDecipheriv('aes-256-gcm', found.key, rest.subarray(0, nonceBytes), {
    authTagLength: tagBytes,
  })
  decipher.setAAD(Buffer.from(place))
  decipher.setAuthTag(rest.subarray(-tagBytes))
  return Buffer.concat([decipher.update(rest.subarray(nonceBytes, -tagBytes)), decipher.final()])
}
