import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdir, open, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ToolError } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import type { Ending } from '../../storage/calls/call-store.ts'

/**
 * Stores outcomes on disk while the database is unavailable, so that they survive a crash of this process.
 * | ## States of an outcome
 * - `kept`: it is on disk.
 * - `handed over`: the database has it, and it is removed from the disk.
 * - `spoilt`: it cannot be parsed, and is put aside.
 * | ## Transitions
 * - `kept` on `add`.
 * - `kept` → `handed over`: `work` resolved for it during a `drain`.
 * - `kept` → `kept`: `work` rejected; the next `drain` tries again.
 * - `kept` → `spoilt`: the process that takes over the spool cannot parse it.
 * | ## Contract
 * - Order: the outcomes of dead processes first, then as added; `drain` keeps this order and removes recorded outcomes.
 * - Durability: `add` resolves once the lines are on disk.
 * - Concurrency: one `add` and one `drain` at a time.
 * - Errors: `add` rejects with STORE_UNAVAILABLE, having stored nothing, when the disk is full or cannot be written.
 * - Ownership: a process writes its own file only. The file of a dead process is drained by the process that finds it.
 *   Two processes may record the same outcome, because the fence decides.
 */
export interface Spool {
  readonly depth: number
  add(endings: readonly Ending[]): Promise<void>
  /** Resolves when the spool can be written; rejects as `add`. Stores nothing. */
  probe(): Promise<void>
  /** Passes all outcomes to `work`; rejects as `work` does, and keeps the remaining ones. */
  drain(work: (endings: readonly Ending[]) => Promise<void>): Promise<void>
}

interface Kept {
  readonly file: string
  endings: readonly Ending[]
}

const atOnce = 200

export async function openSpool(folder: string, spoilt: (file: string, lines: number) => void): Promise<Spool> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const left = await leftBehind(folder, spoilt)
  const own: Kept = { file: join(folder, `${process.pid}-${startOf(process.pid)}.jsonl`), endings: [] }
  const probeFile = `${own.file}.probe`
  let bytes = 0

  const handOver = async (kept: Kept, work: (endings: readonly Ending[]) => Promise<void>): Promise<void> => {
    while (kept.endings.length > 0) {
      const next = kept.endings.slice(0, atOnce)
      await work(next)
      kept.endings = kept.endings.slice(next.length)
    }
    await rm(kept.file, { force: true })
  }
  return {
    get depth() {
      return left.reduce((sum, { endings }) => sum + endings.length, own.endings.length)
    },
    async add(endings) {
      bytes = await append(own.file, endings, bytes)
      own.endings = [...own.endings, ...endings]
    },
    async probe() {
      await writeFile(probeFile, randomBytes(4_096), { mode: 0o600, flush: true }).catch((error: unknown) => {
        throw unavailable(probeFile, error)
      })
      await rm(probeFile, { force: true })
    },
    async drain(work) {
      for (let next = left[0]; next !== undefined; next = left[0]) {
        await handOver(next, work)
        left.shift()
      }
      if (own.endings.length === 0) return
      await handOver(own, work)
      bytes = 0
    },
  }
}

/**
 * Reads the files of dead processes. A truncated last line was never acknowledged. Any other line that cannot be parsed
 * is put aside for an operator, and does not block the rest.
 */
async function leftBehind(folder: string, spoilt: (file: string, lines: number) => void): Promise<Kept[]> {
  const names = (await readdir(folder)).filter((name) => /^\d+-\d+\.jsonl$/.test(name)).sort()
  const dead = names.filter((name) => {
    const [pid = '', start = ''] = name.replace('.jsonl', '').split('-')
    return startOf(Number(pid)) !== start
  })
  return Promise.all(
    dead.map(async (name) => {
      const file = join(folder, name)
      const lines = (await readFile(file, 'utf8')).split('\n').slice(0, -1)
      const bad = lines.filter((line) => endingOf(line) === undefined)
      if (bad.length > 0) {
        const aside = join(folder, `${name}.spoilt`)
        await writeFile(aside, `${bad.join('\n')}\n`, { mode: 0o600 })
        spoilt(aside, bad.length)
      }
      return { file, endings: lines.flatMap((line) => endingOf(line) ?? []) }
    }),
  )
}

/** Parses an outcome as a spool wrote it; undefined when the text is damaged. */
export function endingOf(text: string): Ending | undefined {
  try {
    const ending: unknown = JSON.parse(text)
    return isEnding(ending) ? ending : undefined
  } catch {
    return undefined
  }
}

function isEnding(value: unknown): value is Ending {
  if (!isObject(value) || !isObject(value.result)) return false
  const { callId, fence, bytes, result } = value
  return isText(callId) && Number.isSafeInteger(fence) && typeof bytes === 'number' && isText(result.status)
}

/** The start time of a process, which distinguishes it from a later one with the same pid; empty when there is none. */
function startOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? ''
  } catch {
    return pid === process.pid ? '0' : ''
  }
}

/** Appends lines durably; a partial write is truncated. */
async function append(file: string, endings: readonly Ending[], before: number): Promise<number> {
  const text = Buffer.from(endings.map((ending) => `${JSON.stringify(ending)}\n`).join(''))
  try {
    const handle = await open(file, 'a', 0o600)
    try {
      await handle.appendFile(text)
      await handle.datasync()
    } catch (error) {
      await handle.truncate(before)
      throw error
    } finally {
      await handle.close()
    }
  } catch (error) {
    throw unavailable(file, error)
  }
  return before + text.length
}

function unavailable(file: string, cause: unknown): ToolError {
  return new ToolError('STORE_UNAVAILABLE', `The spool cannot write ${file}.`, { cause })
}
