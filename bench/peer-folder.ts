import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** Packages to compare with, in a folder of the user's cache: not dependencies of the repository. */
export interface PeerFolder {
  /** Installs them, once for each list of versions; reports a failure. */
  install(): void
  /** Imports one of them, or one of its dependencies; the caller declares the type of its exports. */
  load<T>(name: string): Promise<T>
}

export function peerFolder(versions: { readonly [name: string]: string }, megabytes: number): PeerFolder {
  const wanted = Object.entries(versions).map(([name, version]) => `${name}@${version}`)
  const hash = createHash('sha256').update(wanted.join()).digest('hex').slice(0, 12)
  const folder = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'gantry', `bench-peers-${hash}`)
  const loader = join(folder, 'load.mjs')
  return {
    install() {
      if (existsSync(loader)) return
      mkdirSync(folder, { recursive: true })
      writeFileSync(join(folder, 'package.json'), '{ "private": true }\n')
      console.error(`bench: installing peers, about ${megabytes} MB, into ${folder}`)
      if (!npmInstall(folder, wanted)) {
        console.error('bench: npm could not install the peers; the tables will name them as not measured.')
        return
      }
      // A file in this folder, so that names resolve from it; written last, it also marks the install as complete.
      writeFileSync(loader, 'export const load = (name) => import(name)\n')
    },
    async load<T>(name: string) {
      if (!existsSync(loader)) throw new Error('the peers are not installed')
      const { load } = (await import(pathToFileURL(loader).href)) as { load: (name: string) => Promise<unknown> }
      return (await load(name)) as T
    },
  }
}

function npmInstall(folder: string, wanted: readonly string[]): boolean {
  const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--save-exact', '--loglevel=error', '--progress=true']
  const windows = process.platform === 'win32'
  const { status, error } = spawnSync(windows ? 'npm.cmd' : 'npm', ['i', '--prefix', folder, ...flags, ...wanted], {
    cwd: folder,
    stdio: ['ignore', 2, 2],
    shell: windows,
  })
  return error === undefined && status === 0
}
