import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** Exact versions, so that two runs on one machine compare like with like. */
export const peerVersions = {
  '@modelcontextprotocol/server': '2.4.0',
  '@modelcontextprotocol/client': '2.4.0',
  ai: '7.0.169',
  '@langchain/core': '1.2.13',
  ajv: '8.20.0',
  minisearch: '7.2.0',
  zod: '4.6.7',
} as const

export type PeerName = keyof typeof peerVersions

const root = join(import.meta.dirname, '..')
const wanted = Object.entries(peerVersions).map(([name, version]) => `${name}@${version}`)
const hash = createHash('sha256').update(wanted.join()).digest('hex').slice(0, 12)
const folder = join(root, 'node_modules', '.cache', 'gantry-bench', hash)
const stamp = join(folder, 'installed')

/** Installs the peers beside the repository's own dependencies, once for each list of versions. */
export function installPeers(): void {
  if (existsSync(stamp)) return
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n')
  console.error(`bench: installing peers into ${folder} …`)
  const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--save-exact', '--loglevel=error', '--progress=true']
  const windows = process.platform === 'win32'
  const { status, error } = spawnSync(windows ? 'npm.cmd' : 'npm', ['i', '--prefix', folder, ...flags, ...wanted], {
    cwd: folder,
    stdio: ['ignore', 2, 2],
    shell: windows,
  })
  if (error !== undefined || status !== 0) {
    console.error('bench: the peers could not be installed; the tables will say so in their place.')
    return
  }
  writeFileSync(stamp, '')
}

/** Imports a peer (or a file of it) from the cache; what it exports is the caller's to name. */
export async function importPeer(name: PeerName, path = ''): Promise<unknown> {
  const request = createRequire(join(folder, 'index.js'))
  const specifier = `${name}${path}`
  // `import.meta.resolve` knows the import condition, which `require.resolve` does not, but not another folder.
  const entry = resolveAsImport(specifier) ?? request.resolve(specifier)
  return import(pathToFileURL(entry).href)
}
