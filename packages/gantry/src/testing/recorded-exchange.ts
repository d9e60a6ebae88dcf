import { isUtf8 } from 'node:buffer'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { type Json, ToolError } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import { parseJson } from '@gantry/core/internal/json/parse'
import { defaultJsonLimits } from '@gantry/core/internal/json/plain'
import { flag, listOf, mapOf, part, text, whole } from '@gantry/core/internal/options/option'
import { checkOptions, optionsCheck } from '@gantry/core/internal/options/options'

/** A body as text, as JSON, or as bytes in base64. */
export type RecordedBody = string | { readonly json: Json } | { readonly base64: string }

/** A request and its response. A request of a tool matches by method, URL and body; its headers do not matter. */
export interface RecordedExchange {
  readonly request: {
    /** `GET` when absent. */
    readonly method?: string
    readonly url: string
    readonly body?: RecordedBody
  }
  readonly response: {
    /** 200 when absent. */
    readonly status?: number
    readonly headers?: { readonly [name: string]: string }
    readonly body?: RecordedBody
    /** The URL of the response after redirects, when it differs. */
    readonly url?: string
  }
  /** Whether it answers any number of requests; otherwise it answers one. */
  readonly repeat?: boolean
}

/** The content of a file of recorded exchanges. */
interface RecordingDocument {
  readonly version: 1
  readonly exchanges: readonly RecordedExchange[]
}

const body = part(
  (value) =>
    isText(value) || (isObject(value) && Object.keys(value).length === 1 && ('json' in value || isText(value.base64))),
  'a text, { json: … } or { base64: … }',
)
const aUrl = part((value) => isText(value) && URL.canParse(value), 'a URL')

const exchange = optionsCheck<RecordedExchange>({
  members: {
    request: optionsCheck<RecordedExchange['request']>({
      members: { method: text(), url: aUrl, body },
      required: ['url'],
      noun: 'a member of a request',
    }),
    response: optionsCheck<RecordedExchange['response']>({
      members: { status: whole(200, 599), headers: mapOf(part(isText, 'a text')), body, url: aUrl },
      noun: 'a member of a response',
    }),
    repeat: flag,
  },
  required: ['request', 'response'],
  noun: 'a member of an exchange',
})

const exchanges = listOf(exchange)
const document = optionsCheck<RecordingDocument>({
  members: { version: part((value) => value === 1, '1'), exchanges },
  required: ['version', 'exchanges'],
  noun: 'a member of a recording',
})

/** Refuses exchanges of a wrong form with CONFIG_INVALID. */
export function checkExchanges(value: unknown): void {
  checkOptions('recorded exchanges', exchanges, value)
}

const limits = { ...defaultJsonLimits, bytes: 268_435_456, nodes: 10_000_000 }

/** The exchanges of a file; throws CONFIG_INVALID for one that is not there or is no recording. */
export function readRecording(file: string): readonly RecordedExchange[] {
  const value: unknown = parsed(file)
  checkOptions(`recording ${file}`, document, value)
  return value.exchanges
}

function parsed(file: string): unknown {
  try {
    return parseJson(readFileSync(file, 'utf8'), limits)
  } catch (cause) {
    const missing = isObject(cause) && cause.code === 'ENOENT'
    const message = missing ? "does not exist; run the test once with mode: 'record'" : 'cannot be read'
    throw new ToolError('CONFIG_INVALID', `The recording ${file} ${message}.`, { cause })
  }
}

/** Replaces the file of a recording. */
export function writeRecording(file: string, list: readonly RecordedExchange[]): void {
  const recording: RecordingDocument = { version: 1, exchanges: list }
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, `${JSON.stringify(recording, undefined, 2)}\n`)
}

/** The bytes of a recorded body. */
export function bytesOf(recorded: RecordedBody | undefined): Uint8Array {
  if (recorded === undefined) return new Uint8Array()
  if (typeof recorded === 'string') return Buffer.from(recorded)
  return 'json' in recorded ? Buffer.from(JSON.stringify(recorded.json)) : Buffer.from(recorded.base64, 'base64')
}

/** A body as a recording holds it: JSON where it is JSON, a text where it is UTF-8, else bytes; undefined when empty. */
export function recordedBody(bytes: Uint8Array): RecordedBody | undefined {
  if (bytes.length === 0) return undefined
  if (!isUtf8(bytes)) return { base64: Buffer.from(bytes).toString('base64') }
  const written = Buffer.from(bytes).toString()
  try {
    const json = parseJson(written, limits)
    return isObject(json) || Array.isArray(json) ? { json } : written
  } catch {
    return written
  }
}
