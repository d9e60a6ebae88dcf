import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import { join } from 'node:path'
import { driversFolder, ownFile } from '../guest/own-files.ts'

/** Everything that a host is made of, and a name for exactly this. */
export interface HostFiles {
  /** As Node runs it, by path in the folder of a host. */
  modules(): ReadonlyMap<string, string>
  /** Where the driver's files lie. */
  readonly drivers: string
  readonly digest: string
}

const modules = [
  ...[
    'guest/random',
    'guest/web-assembly',
    'python/disk',
    'python/frames',
    'python/genuine',
    'python/guest',
    'python/host',
  ],
  ...['python/host-node', 'python/load', 'python/memory-cap', 'python/service', 'python/shell'],
]
const drivers = ['python.py', 'python_channel.py', 'python_json.py', 'python_returns.py', 'python_still.py']

/**
 * Reads them. A host gets copies without types: stripping them at each start would take longer than all the rest, and it
 * then needs no leave to read anything of ours.
 */
export async function readHostFiles(version: string): Promise<HostFiles> {
  const files = modules.map((name) => ownFile(name))
  const texts = await Promise.all(files.map((file) => readFile(file, 'utf8')))
  const folder = driversFolder()
  const hash = createHash('sha256').update(`${version} ${process.version} ${process.arch} ${process.platform}`)
  for (const text of texts) hash.update(`\0${text}`)
  for (const name of drivers) hash.update('\0').update(await readFile(join(folder, name)))
  return {
    modules: () =>
      new Map(modules.map((name, index) => [`${name}.mjs`, asModule(files[index] ?? '', texts[index] ?? '')])),
    drivers: `${folder}/`,
    digest: hash.digest('hex').slice(0, 32),
  }
}

function asModule(file: string, text: string): string {
  const plain = file.endsWith('.ts') ? stripTypeScriptTypes(text) : text
  return plain.replace(/(from '\.[^']*)\.(?:ts|js)'/g, "$1.mjs'")
}
