import { readFile } from 'node:fs/promises'
import { type Issue, ToolError } from '@gantry/contract'
import { whileLocked } from '../files/lock.ts'
import { replacePrivate } from '../files/private-file.ts'
import { isObject } from '../json/kinds.ts'
import { JsonError } from '../json/limits.ts'
import { parseJson } from '../json/parse.ts'
import { definitionHash } from './definition.ts'
import type { Pin, PinStore, Pins } from './pin.ts'

interface Book {
  readonly version: 1
  readonly sources: { readonly [source: string]: Pins }
}

const limits = { bytes: 64 * 1024 * 1024, depth: 80, nodes: 5_000_000 }

/**
 * Pins in one JSON file that a person can read and a repository can keep. Writing is whole or not at all, and under a
 * lock file, so that processes that save at the same time all arrive; reading needs no lock. A lock that a crash left
 * behind is CONFIG_INVALID after ten seconds, with the file to remove. A file that cannot be read as pins is
 * CONFIG_INVALID too: guessing would trust what nobody approved.
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
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { version: 1, sources: {} }
    signal.throwIfAborted()
    throw wrong(file, 'cannot be read', error)
  }
  try {
    const book: unknown = parseJson(text, limits)
    const issue = fault(book)
    if (issue !== undefined) throw wrong(file, `is no file of pins: ${issue.path} ${issue.message}`)
    return book as Book
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    throw wrong(file, 'is no JSON', error)
  }
}

/** A pin whose hash is not its definition's was edited by hand, and then nobody knows which of them was approved. */
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
        return { path, message: 'must say when and by whom it was pinned' }
      }
      if (definitionHash((pin as unknown as Pin).definition) !== pin.hash) {
        return { path: `${path}/hash`, message: 'is not the hash of the definition beside it' }
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
  return new ToolError('CONFIG_INVALID', `The file of pins ${file} ${what}.`, { cause })
}
