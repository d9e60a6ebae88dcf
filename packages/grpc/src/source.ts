import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ToolError } from '@gantry/contract'
import type { Channel } from './channel.ts'
import { readDescriptors } from './descriptors.ts'
import type { GrpcOptions } from './options.ts'
import { reflect } from './reflection.ts'
import { type MethodType, methodKey, type Types } from './types.ts'
import { readParts, WireError } from './wire.ts'

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

/** Whatever goes wrong here, the tool that somebody wanted to call did not run. */
function beforeAnyCall(error: unknown): never {
  if (error instanceof WireError) throw unreadable('What the server says of itself', error, 'none')
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

/** Reads bytes; those that are not what they should be are a failure of whoever sent them. */
export function understood<Value>(what: string, read: () => Value, effect: 'none' | 'possible'): Value {
  try {
    return read()
  } catch (error) {
    throw error instanceof WireError ? unreadable(what, error, effect) : error
  }
}

function unreadable(what: string, cause: WireError, effect: 'none' | 'possible'): ToolError {
  return new ToolError('BACKEND_FAILED', `${what} cannot be read.`, { cause, effect })
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
  for (const definition of Object.values(loaded) as { readonly fileDescriptorProtos?: readonly Buffer[] }[]) {
    if (definition.fileDescriptorProtos !== undefined) return definition.fileDescriptorProtos
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

/** The comments that stand before methods in `.proto` text, by `package.Service/Method`; the loader drops them. */
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
