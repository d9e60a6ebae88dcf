import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** Exact versions, so that two runs compare like with like. */
export const peerVersions = {
  '@modelcontextprotocol/server': '2.4.0',
  '@modelcontextprotocol/client': '2.4.0',
  ai: '7.0.169',
  '@langchain/core': '1.2.13',
  ajv: '8.20.0',
  minisearch: '7.2.0',
  zod: '4.6.7',
} as const

const wanted = Object.entries(peerVersions).map(([name, version]) => `${name}@${version}`)
const hash = createHash('sha256').update(wanted.join()).digest('hex').slice(0, 12)
const folder = join(import.meta.dirname, '..', 'node_modules', '.cache', 'gantry-bench', hash)
const loader = join(folder, 'load.mjs')

/** Installs the peers outside the repository's own dependencies, once for each list of versions. */
export function installPeers(): void {
  if (existsSync(loader)) return
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n')
  console.error(`bench: installing peers, about 90 MB, into ${folder}`)
  const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--save-exact', '--loglevel=error', '--progress=true']
  const windows = process.platform === 'win32'
  const { status, error } = spawnSync(windows ? 'npm.cmd' : 'npm', ['i', '--prefix', folder, ...flags, ...wanted], {
    cwd: folder,
    stdio: ['ignore', 2, 2],
    shell: windows,
  })
  if (error !== undefined || status !== 0) {
    console.error('bench: npm could not install the peers; the tables will name them as not measured.')
    return
  }
  // A file of its own, so that names resolve from the peers' folder; written last, it also marks the install as whole.
  writeFileSync(loader, 'export const load = (name) => import(name)\n')
}

/** Imports a peer, or a package that came with it; what it exports is for the caller to name. */
export async function importPeer<T>(name: string): Promise<T> {
  if (!existsSync(loader)) throw new Error('the peers are not installed')
  const { load } = (await import(pathToFileURL(loader).href)) as { load: (name: string) => Promise<unknown> }
  return (await load(name)) as T
}
