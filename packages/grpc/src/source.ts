import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { Channel } from './channel.ts'
import { readDescriptors } from './descriptors.ts'
import { isStatus } from './exchange.ts'
import type { GrpcOptions } from './options.ts'
import { type MethodType, methodKey, type Types } from './types.ts'
import { bytesField, type Parts, readParts, WireError } from './wire.ts'

/** Reads what the server serves, from the files that the options name or by asking it. */
export async function readTypes(
  { proto, includeDirs = [] }: GrpcOptions,
  channel: Channel,
  metadata: () => Promise<{ readonly [name: string]: string }>,
  signal: AbortSignal,
): Promise<Types> {
  if (proto === undefined) {
    const descriptors = await reflect(channel, await metadata(), signal).catch(beforeAnyCall)
    return understood('The descriptors of the server', () => readDescriptors(descriptors), 'none')
  }
  const { descriptors, comments } = await loadFiles(typeof proto === 'string' ? [proto] : proto, includeDirs)
  const types = understood('The descriptors in the files', () => readDescriptors(descriptors), 'none')
  return { ...types, methods: new Map([...types.methods].map(([key, method]) => [key, commented(method, comments)])) }
}

/** A failure to read the descriptors leaves no effect: the tool was not called. */
function beforeAnyCall(error: unknown): never {
  if (error instanceof WireError) throw unreadable('The reflection response of the server', error, 'none')
  if (!ToolError.is(error)) throw error
  const { code, message, retryable, details, cause } = error
  throw new ToolError(code, message, {
    effect: 'none',
    retryable,
    cause,
    ...(details === undefined ? {} : { details }),
  })
}

function commented(method: MethodType, comments: ReadonlyMap<string, string>): MethodType {
  return method.comment === '' ? { ...method, comment: comments.get(methodKey(method)) ?? '' } : method
}

/** Reads bytes; malformed ones are a failure of the server that sent them. */
export function understood<Value>(what: string, read: () => Value, effect: 'none' | 'possible'): Value {
  try {
    return read()
  } catch (error) {
    throw error instanceof WireError ? unreadable(what, error, effect) : error
  }
}

function unreadable(what: string, cause: WireError, effect: 'none' | 'possible'): ToolError {
  const { path, message } = cause
  if (path === '') return new ToolError('BACKEND_FAILED', `${what} cannot be read.`, { cause, effect })
  const details = { issues: [{ path, message }] }
  return new ToolError('BACKEND_FAILED', `${what} cannot be read at ${path}.`, { cause, effect, details })
}

/** Descriptors from files, and what the comments before methods say, by `package.Service/Method`. */
interface LoadedFiles {
  readonly descriptors: readonly Buffer[]
  readonly comments: ReadonlyMap<string, string>
}

/**
 * Reads `.proto` files with all that they import, and files of any other ending as descriptor sets. The parser of
 * `.proto` text is loaded when it is first needed. Throws CONFIG_INVALID when a file is missing or wrong.
 */
export async function loadFiles(paths: readonly string[], includeDirs: readonly string[]): Promise<LoadedFiles> {
  const sources = paths.filter((path) => path.endsWith('.proto'))
  try {
    const sets = await Promise.all(paths.filter((path) => !path.endsWith('.proto')).map(readSet))
    if (sources.length === 0) return { descriptors: sets.flat(), comments: new Map() }
    const { load } = await import('@grpc/proto-loader')
    const dirs = includeDirs.length === 0 ? {} : { includeDirs: [...includeDirs] }
    const loaded = await load([...sources], { keepCase: true, ...dirs })
    const texts = await Promise.all(sources.map((path) => readSource(path, includeDirs)))
    return {
      descriptors: [...sets.flat(), ...descriptorsOf(loaded)],
      comments: new Map(texts.flatMap(commentsOfProto)),
    }
  } catch (error) {
    throw new ToolError('CONFIG_INVALID', `The files ${paths.join(', ')} could not be read.`, { cause: error })
  }
}

async function readSet(path: string): Promise<readonly Buffer[]> {
  return readParts(await readFile(path), { left: 100_000 }).all(1)
}

/** Every definition that the loader gives holds the descriptors of all files; one is enough. */
function descriptorsOf(loaded: object): readonly Buffer[] {
  for (const definition of Object.values(loaded)) {
    if (!isObject(definition)) continue
    const { fileDescriptorProtos: descriptors } = definition
    if (Array.isArray(descriptors)) return descriptors.filter(Buffer.isBuffer)
  }
  return []
}

/** The text of a file where the loader found it: in a folder of imports, or where its path says. */
async function readSource(path: string, includeDirs: readonly string[]): Promise<string> {
  for (const folder of includeDirs) {
    const text = await readFile(join(folder, path), 'utf8').catch(() => undefined)
    if (text !== undefined) return text
  }
  return readFile(path, 'utf8')
}

const token = /\/\/[^\n]*|\/\*[\s\S]*?\*\/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[A-Za-z_][\w.]*|\s+|[^\s]/g
const longestComment = 4_000

/** The comments before methods in `.proto` text, by `package.Service/Method`; the loader drops them. */
export function commentsOfProto(text: string): readonly (readonly [method: string, comment: string])[] {
  const found: [string, string][] = []
  let [scope, service, comment, before] = ['', '', '', '']
  let afterCode = false
  for (const [word] of text.matchAll(token)) {
    if (/^\s/.test(word)) {
      if (word.includes('\n')) afterCode = false
      // An empty line parts a comment from what follows.
      if (word.split('\n').length > 2) comment = ''
      continue
    }
    if (word.startsWith('//') || word.startsWith('/*')) {
      // A comment behind code on the same line belongs to that code.
      if (!afterCode) comment = `${comment}\n${plain(word)}`.trim()
      continue
    }
    if (before === 'package') scope = `${word}.`
    if (before === 'service') service = word
    if (before === 'rpc' && comment !== '') found.push([`${scope}${service}/${word}`, comment.slice(0, longestComment)])
    if (word !== 'rpc') comment = ''
    before = word
    afterCode = true
  }
  return found
}

/** A comment without its slashes and stars. */
function plain(comment: string): string {
  const inner = comment.startsWith('//') ? comment.slice(2) : comment.slice(2, -2)
  return inner
    .split('\n')
    .map((line) => line.replace(/^\s*\*?\s?/, '').trimEnd())
    .join('\n')
    .trim()
}

const mostServices = 500
const mostFiles = 1_000
const mostBytes = 8_388_608
const mostMs = 20_000
const protocols = ['grpc.reflection.v1', 'grpc.reflection.v1alpha']
const request = { byFile: 3, bySymbol: 4, listServices: 7 } as const
const answer = { files: 4, services: 6, error: 7 } as const

/** Asks one thing of a reflection service. */
type Ask = (field: number, text: string) => Promise<Parts>

/**
 * Asks a server for the descriptors of everything it serves, and of all that those refer to. What comes is bounded in
 * number, bytes and time, whatever the server sends: LIMIT_EXCEEDED. `metadata` goes along as with any call.
 */
async function reflect(
  channel: Channel,
  metadata: { readonly [name: string]: string },
  signal: AbortSignal,
): Promise<readonly Buffer[]> {
  const within = AbortSignal.any([signal, AbortSignal.timeout(mostMs)])
  const ask = asking(channel, metadata, within)
  try {
    return await collect(ask)
  } catch (error) {
    if (signal.aborted || !within.aborted) throw error
    throw excess(`took more than ${mostMs / 1_000} s`)
  }
}

async function collect(ask: Ask): Promise<readonly Buffer[]> {
  const files = new Map<string, Buffer>()
  const wanted: string[] = []
  for (const service of await servicesOf(ask)) {
    take(await ask(request.bySymbol, service), files, wanted)
  }
  for (let name = wanted.pop(); name !== undefined; name = wanted.pop()) {
    if (files.has(name)) continue
    take(await ask(request.byFile, name), files, wanted)
    if (!files.has(name))
      throw new ToolError('BACKEND_FAILED', 'Server reflection did not return a file that another file imports.')
  }
  return [...files.values()]
}

async function servicesOf(ask: Ask): Promise<readonly string[]> {
  const list = (await ask(request.listServices, '*')).all(answer.services).at(-1)
  const services =
    list === undefined
      ? []
      : readParts(list)
          .all(1)
          .map((service) => readParts(service).text(1))
  if (services.length > mostServices) throw excess(`names more than ${mostServices} services`)
  return services
}

/** Keeps the files of an answer, and notes which others they import. */
function take(parts: Parts, files: Map<string, Buffer>, wanted: string[]): void {
  const given = parts.all(answer.files).flatMap((bytes) => readParts(bytes).all(1))
  for (const bytes of given) {
    const file = readParts(bytes)
    if (files.has(file.text(1))) continue
    files.set(file.text(1), bytes)
    wanted.push(...file.all(3).map(String))
    if (files.size > mostFiles || wanted.length > 100 * mostFiles) throw excess(`brings more than ${mostFiles} files`)
  }
}

/** Each question is a stream of its own with one message; a server that lacks the newer protocol is asked by the older. */
function asking(channel: Channel, metadata: { readonly [name: string]: string }, signal: AbortSignal): Ask {
  let [protocol, ...older] = protocols
  let bytes = 0
  const ask: Ask = async (field, text) => {
    const method = `${protocol}.ServerReflection/ServerReflectionInfo`
    try {
      const message = bytesField(field, text)
      let first: Buffer | undefined
      // Read to its end, because a server takes many streams that are cancelled for an attack.
      for await (const part of channel.call({ method, message, metadata, maxBytes: mostBytes, signal })) {
        bytes += part.length
        if (bytes > mostBytes) throw excess(`sends more than ${mostBytes} bytes`)
        first ??= part
      }
      if (first !== undefined) return checked(readParts(first))
    } catch (error) {
      const next = older.shift()
      if (next === undefined || !isStatus(error, 'UNIMPLEMENTED')) throw error
      protocol = next
      return ask(field, text)
    }
    throw new ToolError('BACKEND_FAILED', 'Server reflection returned no response.')
  }
  return ask
}

function checked(parts: Parts): Parts {
  const error = parts.all(answer.error).at(-1)
  if (error === undefined) return parts
  const text = readParts(error).text(2).slice(0, 1_000)
  throw new ToolError('BACKEND_FAILED', text === '' ? 'Server reflection failed.' : text)
}

function excess(what: string): ToolError {
  return new ToolError('LIMIT_EXCEEDED', `Server reflection ${what}; use descriptor files instead.`, { effect: 'none' })
}
