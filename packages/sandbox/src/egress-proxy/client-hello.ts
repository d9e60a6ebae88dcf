import { isIP } from 'node:net'
import { ToolError } from '@gantry/contract'

/** What TLS says to whoever asks for a name that is not served: a fatal `unrecognized_name`. */
export const unrecognizedName = Uint8Array.of(21, 3, 3, 0, 2, 2, 112)

const recordHead = 5
const mostInRecord = 16_384

/** Takes the next bytes of a tunnel and gives those that may go on; undefined while they are held back. */
export type HelloGate = (piece: Uint8Array) => Uint8Array | undefined

/**
 * Holds the first bytes of a tunnel back until they are a TLS ClientHello for the host that was asked for, then passes
 * everything on; throws EGRESS_DENIED for anything else. A rule for `https://a.example` thereby opens neither another
 * protocol nor, where one address serves many names, another name. What is said inside TLS nobody here can see.
 */
export function helloGate(host: string): HelloGate {
  const held: Uint8Array[] = []
  let [bytes, needed] = [0, recordHead]
  return (piece) => {
    if (needed === 0) return piece
    held.push(piece)
    bytes += piece.byteLength
    if (bytes < needed) return undefined
    const start = Buffer.concat(held)
    needed = recordHead + helloLength(start)
    if (bytes < needed) return undefined
    if (!isFor(host, serverNames(start.subarray(recordHead, needed)))) {
      throw refused(`The encryption is for another name than ${host}, which was asked for.`)
    }
    needed = 0
    held.length = 0
    return start
  }
}

/** What the record of a ClientHello says of its length; no client divides one into several records. */
function helloLength(start: Buffer): number {
  const length = start.readUInt16BE(3)
  if (start[0] !== 22 || start[1] !== 3 || length > mostInRecord) throw notTls()
  return length
}

function isFor(host: string, names: readonly string[]): boolean {
  const [name, ...more] = names
  // An address is not sent as a name.
  if (name === undefined) return isIP(host.replace(/^\[|\]$/g, '')) !== 0
  return more.length === 0 && name.toLowerCase().replace(/\.$/, '') === host
}

/** All server names in a ClientHello. */
function serverNames(hello: Buffer): string[] {
  try {
    return namesIn(hello)
  } catch (cause) {
    throw cause instanceof RangeError ? notTls(cause) : cause
  }
}

/** Reads without trusting any length; reading beyond the end is a RangeError, as is whatever else is not as it should be. */
function namesIn(hello: Buffer): string[] {
  if (hello.readUInt8(0) !== 1 || hello.readUIntBE(1, 3) !== hello.length - 4) throw new RangeError('not a ClientHello')
  const names: string[] = []
  let at = 4 + 2 + 32
  at += 1 + hello.readUInt8(at) // the session
  at += 2 + hello.readUInt16BE(at) // ciphers
  at += 1 + hello.readUInt8(at) // compression
  if (at === hello.length) return names
  if (hello.readUInt16BE(at) !== hello.length - at - 2) throw new RangeError('extensions of another length')
  for (at += 2; at < hello.length; ) {
    const [type, start] = [hello.readUInt16BE(at), at + 4]
    at = start + hello.readUInt16BE(at + 2)
    if (at > hello.length) throw new RangeError('an extension beyond the end')
    if (type === 0) addNames(hello.subarray(start, at), names)
  }
  return names
}

function addNames(list: Buffer, names: string[]): void {
  if (list.readUInt16BE(0) !== list.length - 2) throw new RangeError('names of another length')
  for (let at = 2; at < list.length; ) {
    const end = at + 3 + list.readUInt16BE(at + 1)
    if (list.readUInt8(at) !== 0 || end > list.length) throw new RangeError('not a name')
    names.push(list.toString('latin1', at + 3, end))
    at = end
  }
}

function notTls(cause?: unknown): ToolError {
  return refused('A tunnel carries TLS only.', cause)
}

function refused(message: string, cause?: unknown): ToolError {
  return new ToolError('EGRESS_DENIED', message, { cause })
}
