import { randomBytes } from 'node:crypto'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { QuarantinedTool } from '@gantry/core'
import { readBoundedFile } from '@gantry/service/internal/config/bounded-file'
import type { Io } from './io.ts'
import { safeLine } from './terminal.ts'

const mostBytes = 4 * 1024 * 1024
const mostTools = 10_000

/**
 * Which definition of each tool a person was shown last, id to hash. It is kept from one command to the next in
 * `shown.json` of Gantry's data folder; a file that cannot be understood counts as nothing shown.
 */
export function readShown(folder: string | undefined): ReadonlyMap<string, string> {
  if (folder === undefined) return new Map()
  try {
    const file = readBoundedFile(fileIn(folder), mostBytes)
    if (file.state !== 'read') return new Map()
    const { version, shown } = JSON.parse(file.text)
    if (version !== 1 || typeof shown !== 'object') return new Map()
    return new Map(Object.entries<unknown>(shown).filter((entry): entry is [string, string] => isHash(entry[1])))
  } catch {
    return new Map()
  }
}

/** Remembers what was shown just now. Two commands at once may forget what the other showed; that is safe, if a bother. */
export async function rememberShown(
  folder: string | undefined,
  tools: readonly Pick<QuarantinedTool, 'id' | 'hash'>[],
  io: Io,
): Promise<void> {
  if (folder === undefined || tools.length === 0) return
  const shown = new Map(readShown(folder))
  for (const { id, hash } of tools) {
    shown.delete(id)
    shown.set(id, hash)
  }
  const newest = [...shown].slice(-mostTools)
  const text = JSON.stringify({ version: 1, shown: Object.fromEntries(newest) }, undefined, 2)
  try {
    await replace(fileIn(folder), `${text}\n`)
  } catch (error) {
    io.err(`warning: what was shown cannot be remembered: ${safeLine(String(error))}\n`)
  }
}

async function replace(file: string, text: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  const draft = `${file}.${randomBytes(6).toString('hex')}.tmp`
  try {
    await writeFile(draft, text, { flag: 'wx', mode: 0o600, flush: true })
    await rename(draft, file)
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
}

function fileIn(folder: string): string {
  return join(folder, 'shown.json')
}

function isHash(value: unknown): boolean {
  return typeof value === 'string' && /^[0-9a-f]{64}$/.test(value)
}
