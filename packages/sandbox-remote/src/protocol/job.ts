import { type Issue, type Json, ToolError } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import type { Program, SandboxJob } from '@gantry/core/internal/runtimes/runtime'
import { checkPath } from '@gantry/sandbox/internal/languages/file-path'
import { jsonBytes, readJson } from './documents.ts'

/** A job as it crosses: what the client listens to in place of its functions. */
export interface WireJob extends Omit<SandboxJob, 'onOutput' | 'onMessage' | 'gateway'> {
  /** Output is sent as it is written; otherwise at the end. */
  readonly streams: boolean
  readonly messages: boolean
  readonly gateway: boolean
}

/** Largest body of a job. */
export const mostJobBytes = 268_435_456
const mostFiles = 10_000
const headBytes = 4

/** The head as JSON with its length before it, then stdin and files as bytes, one after the other. */
export function encodeJob(job: SandboxJob): Buffer {
  const { program, tenant, stdin, files, env, collect, onOutput, onMessage, gateway } = job
  if (program.kind === 'wasi')
    throw new ToolError('INPUT_INVALID', 'A WASI module runs in the local runtime wasm only.')
  const contents = [...(stdin === undefined ? [] : [stdin]), ...(files?.values() ?? [])]
  const head = jsonBytes({
    program,
    ...(tenant === undefined ? {} : { tenant }),
    ...(stdin === undefined ? {} : { stdin: stdin.length }),
    ...(files === undefined ? {} : { files: [...files].map(([path, bytes]) => [path, bytes.length]) }),
    ...(env === undefined ? {} : { env }),
    ...(collect === undefined ? {} : { collect }),
    streams: onOutput !== undefined,
    messages: onMessage !== undefined,
    gateway: gateway !== undefined,
  })
  const length = Buffer.alloc(headBytes)
  length.writeUInt32BE(head.length)
  const body = Buffer.concat([length, head, ...contents])
  if (body.length <= mostJobBytes) return body
  const message = `The program and its files exceed ${mostJobBytes} bytes, the limit of the runtime remote.`
  throw new ToolError('INPUT_INVALID', message, { effect: 'none' })
}

/** Reads a job of a client, which may be hostile. Throws INPUT_INVALID. */
export function decodeJob(body: Buffer): WireJob {
  const length = body.length < headBytes ? 0 : body.readUInt32BE(0)
  if (body.length < headBytes + length) throw invalid('', 'is cut off')
  const head = headOf(body.subarray(headBytes, headBytes + length))
  let rest = body.subarray(headBytes + length)
  const take = (size: unknown, path: string): Uint8Array => {
    if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0 || size > rest.length) {
      throw invalid(path, 'is cut off')
    }
    const bytes = rest.subarray(0, size)
    rest = rest.subarray(size)
    return bytes
  }
  const { tenant, env, streams, messages, gateway } = head
  const stdin = head.stdin === undefined ? undefined : take(head.stdin, '/stdin')
  const files = head.files === undefined ? undefined : filesOf(head.files, take)
  if (rest.length > 0) throw invalid('', 'has bytes after its end')
  const collect = collectOf(head.collect)
  return {
    program: programOf(head.program),
    ...(isText(tenant) ? { tenant: tenant.slice(0, 256) } : {}),
    ...(stdin === undefined ? {} : { stdin }),
    ...(files === undefined ? {} : { files }),
    ...(env === undefined ? {} : { env: environmentOf(env) }),
    ...(collect === undefined ? {} : { collect }),
    streams: streams === true,
    messages: messages === true,
    gateway: gateway === true,
  }
}

function headOf(bytes: Buffer): { readonly [key: string]: Json } {
  try {
    const head = readJson(bytes)
    if (isObject(head)) return head
  } catch (cause) {
    throw invalid('', 'is not JSON', cause)
  }
  throw invalid('', 'is not an object')
}

function filesOf(value: Json, take: (size: unknown, path: string) => Uint8Array): ReadonlyMap<string, Uint8Array> {
  if (!Array.isArray(value) || value.length > mostFiles) throw invalid('/files', `must be at most ${mostFiles} files`)
  const files = new Map<string, Uint8Array>()
  for (const [index, entry] of value.entries()) {
    const [path, size] = Array.isArray(entry) ? entry : []
    const fault = isText(path) ? checkPath(path) : 'is not a string'
    if (!isText(path) || fault !== undefined) throw invalid(`/files/${index}`, fault ?? 'is not a string')
    files.set(path, take(size, `/files/${index}`))
  }
  return files
}

function programOf(value: Json | undefined): Program {
  if (isObject(value)) {
    const { kind, language, code, argv, script } = value
    if (kind === 'code' && isText(language) && isText(code)) return { kind, language, code }
    if (kind === 'script' && isText(script)) return { kind, script }
    if (kind === 'argv' && Array.isArray(argv) && argv.every(isText)) {
      const [command, ...rest] = argv
      if (command !== undefined) return { kind, argv: [command, ...rest] }
    }
  }
  throw invalid('/program', 'must be code, a script or a command')
}

function environmentOf(value: Json): { readonly [name: string]: string } {
  if (!isObject(value)) throw invalid('/env', 'must be an object')
  const entries = Object.entries(value).map(([name, text]): [string, string] => {
    if (!isText(text) || name === '' || /[=\0]/.test(name) || text.includes('\0')) {
      throw invalid('/env', 'has a name or a value that no environment can hold')
    }
    return [name, text]
  })
  return Object.fromEntries(entries)
}

function collectOf(value: Json | undefined): WireJob['collect'] {
  if (value === undefined) return undefined
  const { files, bytes } = isObject(value) ? value : {}
  const isCount = (one: unknown): one is number => typeof one === 'number' && Number.isSafeInteger(one) && one >= 0
  if (!isCount(files) || !isCount(bytes)) throw invalid('/collect', 'must have the counts files and bytes')
  return { files: Math.min(files, mostFiles), bytes: Math.min(bytes, mostJobBytes) }
}

function invalid(path: string, message: string, cause?: unknown): ToolError {
  const issues: readonly Issue[] = [{ path, message }]
  const text = `Invalid job: ${path === '' ? 'it' : path} ${message}.`
  return new ToolError('INPUT_INVALID', text, { details: { issues }, ...(cause === undefined ? {} : { cause }) })
}
