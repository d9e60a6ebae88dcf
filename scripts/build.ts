import { spawnSync } from 'node:child_process'
import { copyFileSync, cpSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { pagesOf } from '../packages/gantry/src/docs/library.ts'
import { bundleProgram } from './bundle.mjs'
import { lineMap } from './line-maps.ts'

/**
 * Writes publishable packages to build/, or to the folder that is named: JavaScript, declarations and source maps, the
 * command as one file, and their manifests. With --tarballs also packs each into the folder `tarballs` of it, as npm publishes them.
 */
const root = dirname(import.meta.dirname)
const operands = process.argv.slice(2)
const build = join(root, operands.find((word) => !word.startsWith('--')) ?? 'build')
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { workspaces: readonly string[] }
const packages = manifest.workspaces.map((folder) => basename(folder))

rmSync(build, { recursive: true, force: true })
compile()
await bundleProgram(join(root, 'packages/gantry/src/main.ts'), join(build, 'gantry/dist/gantry.cjs'), {
  movable: true,
})
for (const name of packages) finishPackage(name)
writeFileSync(join(build, 'gantry/dist/docs.json'), JSON.stringify(pagesOf(join(root, 'docs'))))
console.log(`Built ${packages.map((name) => join(build, name)).join(', ')}`)
if (operands.includes('--tarballs')) packAll(join(build, 'tarballs'))

/** `conformance` is for tests of drivers, and is not part of an installation. */
function packAll(folder: string): void {
  mkdirSync(folder, { recursive: true })
  const folders = packages.filter((each) => each !== 'conformance').map((name) => join(build, name))
  const { status } = spawnSync('npm', ['pack', ...folders, '--pack-destination', folder, '--silent'], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  if (status !== 0) process.exit(status ?? 1)
  console.log(`Packed into ${folder}`)
}

function compile(): void {
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  const projects = packages.map((name) => `packages/${name}/tsconfig.build.json`)
  const { status } = spawnSync(process.execPath, [tsc, '-b', ...projects], { cwd: root, stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}

function finishPackage(name: string): void {
  const from = join(root, 'packages', name)
  const to = join(build, name)
  mkdirSync(to, { recursive: true })
  for (const file of ['tsconfig.tsbuildinfo', 'dist/gantry.cjs.inputs']) rmSync(join(to, file), { force: true })
  for (const file of globSync('dist/**/*.d.ts', { cwd: to })) rewriteDeclarations(join(to, file))
  for (const file of globSync('dist/**/*.js.map', { cwd: to })) rewriteMap(name, file)
  const manifest = publishedManifest(from)
  for (const folder of manifest.files.filter((each) => each !== 'dist')) {
    cpSync(join(from, folder), join(to, folder), { recursive: true })
  }
  for (const file of ['LICENSE', 'README.md']) copyFileSync(join(root, file), join(to, file))
  writeFileSync(join(to, 'package.json'), `${JSON.stringify(manifest, undefined, 2)}\n`)
}

/** The compiler rewrites `.ts` imports in code but not in declarations. */
function rewriteDeclarations(file: string): void {
  const text = readFileSync(file, 'utf8')
  writeFileSync(file, text.replaceAll(/((?:from|import\() ?['"]\.[^'"]*)\.ts(['"])/g, '$1.js$2'))
}

/**
 * The source is named where it would be in the package, which is where it is below packages/. Maps have its text, so that
 * a debugger can show it; not those of `core`, because an installation of that package alone is to stay below 5 MB.
 */
function rewriteMap(name: string, file: string): void {
  const path = join(build, name, file)
  const original = join('src', relative('dist', file).replace(/\.js\.map$/, '.ts'))
  const source = relative(dirname(file), original)
  writeFileSync(path, lineMap(readFileSync(path, 'utf8'), { source, keepsText: name !== 'core' }))
}

interface Manifest {
  readonly files: readonly string[]
  readonly exports?: { readonly [path: string]: string }
  readonly [key: string]: unknown
}

function publishedManifest(folder: string): Manifest {
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest
  if (manifest.exports === undefined) return manifest
  const exported = Object.entries(manifest.exports).map(([path, source]) => {
    if (!source.endsWith('.ts')) return [path, source]
    const base = source.replace('./src/', './dist/').replace(/\.ts$/, '')
    return [path, { types: `${base}.d.ts`, default: `${base}.js` }]
  })
  return { ...manifest, exports: Object.fromEntries(exported) }
}
