import { spawnSync } from 'node:child_process'
import { globSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { progress } from './progress.ts'
import { figure, type Section } from './report.ts'

const root = join(import.meta.dirname, '..')
const measured = ['@gantry/core', '@gantry/client', 'gantry']
/** A tree of more packages than this is reported by their number alone. */
const mostShown = 20

/** Packages and bytes on disk of an installation into an empty project. */
export async function installSize(): Promise<Section> {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-install-'))
  try {
    progress('install-size: building and packing')
    run(process.execPath, [join(root, 'scripts/build.ts')], root)
    const tarballs = packAll(folder)
    const installed = measured.map((name) => {
      progress(`install-size: installing ${name}`)
      return install(folder, name, tarballs)
    })
    const rows = installed.map(({ name, packages, own, bytes, files }) => {
      const limit = name === '@gantry/core' ? '≤ 5 MB' : ''
      return [`\`npm install ${name}\``, String(packages), String(own), figure(files), megabytes(bytes), limit]
    })
    const head = ['into an empty project', 'packages', 'of them ours', 'files', 'MB on disk', 'target']
    return {
      title: 'What an installation brings',
      tables: [{ head, rows }],
      text: installed.map(treeText).join('\n'),
      notes,
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
    rmSync(join(root, 'build'), { recursive: true, force: true })
  }
}

/** The tarball of every package, by the package's name. */
function packAll(folder: string): ReadonlyMap<string, string> {
  const builds = readdirSync(join(root, 'build')).map((name) => join(root, 'build', name))
  const tarballs = builds.map((build) => {
    const [made] = JSON.parse(run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder], build))
    return [made.name as string, join(folder, String(made.filename).replace('@', '').replace('/', '-'))] as const
  })
  return new Map(tarballs)
}

interface Installed {
  readonly name: string
  readonly packages: number
  readonly own: number
  readonly files: number
  readonly bytes: number
  readonly tree: string
}

/** Installs a package and its dependencies; Gantry's packages come from their tarballs, others from the registry. */
function install(folder: string, name: string, tarballs: ReadonlyMap<string, string>): Installed {
  const project = join(folder, `project-${name.replace(/\W/g, '-')}`)
  mkdirSync(project)
  const local = Object.fromEntries([...tarballs].map(([each, file]) => [each, `file:${file}`]))
  const manifest = { name: 'empty', private: true, dependencies: { [name]: local[name] }, overrides: local }
  writeFileSync(join(project, 'package.json'), JSON.stringify(manifest))
  run(
    'npm',
    ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline', '--loglevel=error'],
    project,
  )
  const { packages } = JSON.parse(readFileSync(join(project, 'node_modules/.package-lock.json'), 'utf8')) as {
    readonly packages: { readonly [place: string]: unknown }
  }
  const places = Object.keys(packages)
  const files = globSync('node_modules/**/*', { cwd: project, exclude: [] }).map((file) =>
    statSync(join(project, file)),
  )
  const regular = files.filter((file) => file.isFile())
  return {
    name,
    packages: places.length,
    own: places.filter((place) => /node_modules\/(?:@gantry\/[a-z-]+|gantry)$/.test(place)).length,
    files: regular.length,
    bytes: regular.reduce((sum, { size }) => sum + size, 0),
    tree: run('npm', ['ls', ...(places.length > mostShown ? ['--depth=1'] : ['--all'])], project),
  }
}

/** The output of `npm ls`, without the paths of the project and the tarballs. */
function treeText({ name, packages, tree }: Installed): string {
  const lines = tree
    .split('\n')
    .slice(1)
    .filter((line) => line.trim() !== '')
  const shown = lines.map((line) => line.replaceAll(/ overridden| invalid.*$| \(file:[^)]*\)| -> .*$/g, ''))
  const depth = packages > mostShown ? '--depth=1' : '--all'
  return [`$ npm ls ${depth}   # after npm install ${name}`, ...shown, ''].join('\n')
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1)
}

function run(file: string, args: readonly string[], cwd: string): string {
  const { status, stdout, stderr, error } = spawnSync(file, args, { cwd, encoding: 'utf8', maxBuffer: 2 ** 26 })
  if (status !== 0) throw new Error(`${file} ${args.join(' ')} failed: ${error?.message ?? ''}${stdout}${stderr}`)
  return stdout
}

const notes = [
  'Packages of ours are built and packed as they are published, and installed from their tarballs; all others come from the registry. Bytes are the sizes of all files under `node_modules`, without what a file system adds.',
]
