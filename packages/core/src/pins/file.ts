import { randomBytes } from 'node:crypto'
import { mkdir, open, readFile, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { type Issue, ToolError } from '@gantry/contract'
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
 * Pins in one JSON file that a person can read and a repository can keep. Writing is whole or not at all; two writers
 * at once in one process take turns, two processes may overwrite each other's newest source, never tear the file.
 * A file that cannot be read as pins is CONFIG_INVALID: guessing would trust what nobody approved.
 */
export function filePins(file: string): PinStore {
  let turn: Promise<unknown> = Promise.resolve()
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const mine = turn.then(work, work)
    turn = mine.catch(() => undefined)
    return mine
  }
  return {
    load: (source, signal) =>
      inTurn(async () => {
        const { sources } = await read(file, signal)
        return Object.hasOwn(sources, source) ? sources[source] : undefined
      }),
    save: (source, pins, signal) =>
      inTurn(async () => {
        const { sources } = await read(file, signal)
        await write(file, { version: 1, sources: { ...sources, [source]: pins } }, signal)
      }),
  }
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
  if (!isRecord(book) || book.version !== 1 || !isRecord(book.sources)) {
    return { path: '', message: 'must have version 1 and sources' }
  }
  for (const [source, pins] of Object.entries(book.sources)) {
    if (!isRecord(pins)) return { path: `/sources/${source}`, message: 'must be an object of pins' }
    for (const [name, pin] of Object.entries(pins)) {
      const path = `/sources/${source}/${name}`
      if (!isRecord(pin) || !isRecord(pin.definition)) return { path, message: 'must have a definition' }
      if (definitionHash((pin as unknown as Pin).definition) !== pin.hash) {
        return { path: `${path}/hash`, message: 'is not the hash of the definition beside it' }
      }
    }
  }
  return undefined
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

async function write(file: string, book: Book, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  const draft = `${file}.${process.pid}.${randomBytes(4).toString('hex')}.tmp`
  try {
    await mkdir(dirname(file), { recursive: true })
    const handle = await open(draft, 'wx', 0o600)
    try {
      await handle.writeFile(`${JSON.stringify(book, undefined, 2)}\n`)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(draft, file)
  } catch (error) {
    await rm(draft, { force: true })
    throw wrong(file, 'cannot be written', error)
  }
}

function wrong(file: string, what: string, cause?: unknown): ToolError {
  return new ToolError('CONFIG_INVALID', `The file of pins ${file} ${what}.`, { cause })
}
