import type { IncomingMessage } from 'node:http'
import { type Json, ToolError } from '@gantry/contract'
import { JsonError } from '@gantry/core/internal/json/limits'
import { parseJson } from '@gantry/core/internal/json/parse'
import { bodyDepth, bodyNodes } from './limits.ts'

/** What curl says of a body when nobody tells it what it is; it is read as JSON, and nothing else. */
const curlType = 'application/x-www-form-urlencoded'
const jsonType = /^application\/(?:[\w.-]+\+)?json\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?$/i

export const noBytes: Uint8Array = new Uint8Array(0)

/**
 * The bytes of a request's body, none when it has none. They are counted as they come, whatever the headers say; the rest
 * of a body that is too long is left for Node to throw away. Throws PAYLOAD_INVALID or PAYLOAD_TOO_LARGE.
 */
export async function readBody(request: IncomingMessage, most: number): Promise<Uint8Array> {
  const { 'content-type': type, 'content-encoding': encoding, 'content-length': length } = request.headers
  if (request.headers['transfer-encoding'] === undefined && (length === undefined || length === '0')) return noBytes
  if (type !== undefined && type !== curlType && !jsonType.test(type)) {
    throw invalid('The body must be application/json in UTF-8.')
  }
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw invalid('A compressed body is not taken; send it as it is.')
  }
  if (Number(length) > most) throw tooLarge(most)
  return readBytes(request, most)
}

/** The JSON of a body, or undefined when it has none. Throws PAYLOAD_INVALID. */
export function parseBody(bytes: Uint8Array, most: number): Json | undefined {
  return bytes.length === 0 ? undefined : parse(decode(bytes), most)
}

function readBytes(request: IncomingMessage, most: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = []
    let total = 0
    const leave = (): void => {
      request.off('data', take).off('end', end).off('error', fail).off('close', fail)
      request.on('error', () => undefined)
    }
    const take = (piece: Buffer): void => {
      pieces.push(piece)
      total += piece.length
      if (total <= most) return
      leave()
      request.resume()
      reject(tooLarge(most))
    }
    const end = (): void => {
      leave()
      resolve(Buffer.concat(pieces, total))
    }
    const fail = (cause?: unknown): void => {
      leave()
      reject(invalid('The body broke off.', cause))
    }
    request.on('data', take).on('end', end).on('error', fail).on('close', fail)
  })
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch (cause) {
    throw invalid('The body is not UTF-8.', cause)
  }
}

function parse(text: string, most: number): Json {
  try {
    return parseJson(text, { bytes: most, depth: bodyDepth, nodes: bodyNodes })
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    const { path, message } = error
    const issues = [{ path: path.slice(0, 1_000), message }]
    throw invalid(`The body cannot be taken: ${`${path.slice(0, 200)} ${message}`.trim()}.`, error, issues)
  }
}

function invalid(message: string, cause?: unknown, issues?: readonly { path: string; message: string }[]): ToolError {
  const why = cause === undefined ? {} : { cause }
  return new ToolError('PAYLOAD_INVALID', message, { ...why, ...(issues === undefined ? {} : { details: { issues } }) })
}

function tooLarge(bodyBytes: number): ToolError {
  return new ToolError('PAYLOAD_TOO_LARGE', `The body is longer than ${bodyBytes} bytes.`, { details: { bodyBytes } })
}
