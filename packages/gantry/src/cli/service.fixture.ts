import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { writeAddress } from '@gantry/service/internal/config/service-files'
import { folderWith } from '../../../service/src/config/config.fixture.ts'
import { type Rig, startRig } from '../../../service/src/http/http.fixture.ts'
import { runCommandLine } from './cli.ts'
import { keptIo } from './io.fixture.ts'
import type { Io } from './io.ts'

export interface Ended {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** A service behind real HTTP, and a folder in which commands find it. */
export interface ServiceRig extends Rig {
  readonly folder: string
  gantry(line: readonly string[], changes?: Partial<Io>): Promise<Ended>
  /** The same with `--json`: what stdout holds, line by line. */
  json(line: readonly string[], changes?: Partial<Io>): Promise<Ended & { readonly values: readonly Document[] }>
}

/** Whatever a command printed; a test knows what it asked for. */
// biome-ignore lint/suspicious/noExplicitAny: a test reads it as it expects it
export type Document = any

export async function startServiceRig(t: TestContext): Promise<ServiceRig> {
  const rig = await startRig(t)
  const folder = folderWith({})
  t.after(() => folder[Symbol.dispose]())
  const data = join(folder.path, '.gantry')
  mkdirSync(data)
  writeFileSync(join(data, 'key'), `${rig.key}\n`, { mode: 0o600 })
  await writeAddress(data, { url: rig.server.url, pid: process.pid, config: null })
  const gantry = async (line: readonly string[], changes: Partial<Io> = {}): Promise<Ended> => {
    const io = keptIo({ folder: folder.path, ...changes })
    const code = await runCommandLine(line, io)
    return { code, ...io.printed }
  }
  const json: ServiceRig['json'] = async (line, changes) => {
    const ended = await gantry([...line, '--json'], changes)
    const lines = ended.out.split('\n').filter((text) => text !== '')
    return { ...ended, values: lines.map((text) => JSON.parse(text) as Document) }
  }
  return { ...rig, folder: folder.path, gantry, json }
}
