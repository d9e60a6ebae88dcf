import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdir, open, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ToolError } from '@gantry/contract'
import type { Ending } from '../../storage/calls/call-store.ts'

/**
 * Keeps outcomes on disk while the database is away, so that they outlive this process too.
 * - Order: what dead processes left first, then as added; `drain` hands over in that order and removes what was done.
 * - Durability: `add` resolves once the lines are on disk.
 * - Concurrency: one `add` and one `drain` at a time.
 * - Errors: `add` rejects with STORE_UNAVAILABLE, having kept nothing, when the disk is full or cannot be written.
 * - Ownership: a process writes its own file only. What a dead one left is handed over by whoever finds it; two who hand
 *   over the same outcome do no harm, because the fence decides.
 */
export interface Spool {
  readonly depth: number
  add(endings: readonly Ending[]): Promise<void>
  /** Resolves when it takes what is written; rejects as `add`, and keeps nothing. */
  probe(): Promise<void>
  /** Hands over everything that is kept; rejects as `work` does, and keeps what was not done. */
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
 * Reads the files of processes that are gone. A last line that was cut off was never said to be kept. What else cannot be
 * read is put aside for a person, and does not keep the rest from being handed over.
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

function endingOf(line: string): Ending | undefined {
  try {
    const { callId, fence, result, bytes } = JSON.parse(line) as Partial<Ending>
    const sound = typeof callId === 'string' && Number.isSafeInteger(fence) && typeof bytes === 'number'
    return sound && typeof result?.status === 'string' ? (JSON.parse(line) as Ending) : undefined
  } catch {
    return undefined
  }
}

/** When a process was started, which tells it from a later one with the same number; empty when there is none. */
function startOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? ''
  } catch {
    return pid === process.pid ? '0' : ''
  }
}

/** Adds lines durably after the ones that are there; half a line is taken back. */
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
