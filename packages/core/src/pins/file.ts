import { readFile } from 'node:fs/promises'
import { type Issue, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { codeOf, replacePrivate, whileLocked } from '../files/private-file.ts'
import { digestOf } from '../json/canonical.ts'
import { parseJson } from '../json/parse.ts'
import { JsonError } from '../json/plain.ts'
import type { PinStore, Pins } from './pin.ts'

interface Book {
  readonly version: 1
  readonly sources: { readonly [source: string]: Pins }
}

const limits = { bytes: 64 * 1024 * 1024, depth: 80, nodes: 5_000_000 }

/**
 * Pins in one readable JSON file, which can be committed to a repository. A save is atomic and takes a lock file, so that
 * concurrent saves of several processes are all kept; reading takes no lock. A stale lock is CONFIG_INVALID after ten
 * seconds, with the file to remove. An invalid pin file is CONFIG_INVALID too: ignoring it would trust tools that were
 * not approved.
 */
export function filePins(file: string): PinStore {
  return {
    async load(source, signal) {
      return pinsOf(await read(file, signal), source)
    },
    async save(source, pins, signal) {
      signal.throwIfAborted()
      await whileLocked(file, { signal, code: 'CONFIG_INVALID' }, async () => {
        const book = await read(file, signal)
        const kept = { ...pinsOf(book, source), ...pins }
        await write(file, { version: 1, sources: { ...book.sources, [source]: kept } })
      })
    },
  }
}

function pinsOf({ sources }: Book, source: string): Pins | undefined {
  return Object.hasOwn(sources, source) ? sources[source] : undefined
}

async function read(file: string, signal: AbortSignal): Promise<Book> {
  let text: string
  try {
    text = await readFile(file, { encoding: 'utf8', signal })
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return { version: 1, sources: {} }
    signal.throwIfAborted()
    throw wrong(file, 'cannot be read', error)
  }
  try {
    const book: unknown = parseJson(text, limits)
    assertBook(book, file)
    return book
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    throw wrong(file, 'is not valid JSON', error)
  }
}

function assertBook(book: unknown, file: string): asserts book is Book {
  const issue = fault(book)
  if (issue !== undefined) throw wrong(file, `is not a valid pin file: ${issue.path} ${issue.message}`)
}

/** The first issue of a pin file. A pin whose hash does not match its definition was edited, so its approval is void. */
function fault(book: unknown): Issue | undefined {
  if (!isObject(book) || book.version !== 1 || !isObject(book.sources)) {
    return { path: '', message: 'must have version 1 and sources' }
  }
  for (const [source, pins] of Object.entries(book.sources)) {
    if (!isObject(pins)) return { path: `/sources/${source}`, message: 'must be an object of pins' }
    for (const [name, pin] of Object.entries(pins)) {
      const path = `/sources/${source}/${name}`
      if (!isObject(pin) || !isObject(pin.definition)) return { path, message: 'must have a definition' }
      if (![pin.at, pin.by, pin.since ?? ''].every((part) => typeof part === 'string')) {
        return { path, message: 'must have at and by: when and by whom it was pinned' }
      }
      if (digestOf(pin.definition) !== pin.hash) {
        return { path: `${path}/hash`, message: 'does not match the definition' }
      }
    }
  }
  return undefined
}

async function write(file: string, book: Book): Promise<void> {
  try {
    await replacePrivate(file, `${JSON.stringify(book, undefined, 2)}\n`)
  } catch (error) {
    throw wrong(file, 'cannot be written', error)
  }
}

function wrong(file: string, what: string, cause?: unknown): ToolError {
  return new ToolError('CONFIG_INVALID', `The pin file ${file} ${what}.`, { cause })
}
