import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { build } from 'esbuild'

/**
 * Bundles the command into one CommonJS-style function, and writes the list of its input files next to it.
 * `import.meta.url` inside is that of the entry, or, when the bundle is relocatable, that of the bundle.
 */
export async function bundleProgram(entry, outfile, options = {}) {
  const aside = `${outfile}.${process.pid}`
  mkdirSync(dirname(outfile), { recursive: true })
  const stamps = new Map()
  try {
    const { metafile } = await build({
      entryPoints: [entry],
      outfile: aside,
      bundle: true,
      platform: 'node',
      target: 'node24',
      format: 'cjs',
      // External: loaded on demand and larger than everything else together; runtimes and the service also need their
      // own files on disk.
      external: ['yaml', 'undici', '@grpc/*', '@modelcontextprotocol/*', '@gantry/service/serve'],
      legalComments: 'none',
      minifyWhitespace: true,
      minifySyntax: true,
      metafile: true,
      supported: { 'dynamic-import': false },
      plugins: [importByStarter, sandboxesOutside],
      logLevel: 'silent',
      absWorkingDir: dirname(entry),
      define: { 'import.meta.url': 'importMetaUrl' },
      banner: {
        js: `${head}const importMetaUrl=${options.movable ? own : JSON.stringify(pathToFileURL(entry).href)};`,
      },
      footer: { js: '})' },
    })
    writeFileSync(aside, readFileSync(aside, 'utf8').replace(builtIn, '=$lazy("$1")'))
    for (const input of Object.keys(metafile.inputs)) {
      const path = resolve(dirname(entry), input)
      const { mtimeMs, size } = statSync(path)
      stamps.set(path, [path, mtimeMs, size])
    }
    // The list of inputs is written last: a bundle without it is not used.
    rmSync(`${outfile}.inputs`, { force: true })
    renameSync(aside, outfile)
    writeFileSync(`${aside}.inputs`, JSON.stringify([...stamps.values()]))
    renameSync(`${aside}.inputs`, `${outfile}.inputs`)
    removeLeftovers(outfile)
  } finally {
    rmSync(aside, { force: true })
  }
}

/** Leftovers of a killed bundler; no bundler takes longer than a minute. */
function removeLeftovers(outfile) {
  const folder = dirname(outfile)
  const old = Date.now() - 60_000
  for (const name of readdirSync(folder)) {
    if (!name.startsWith(`${basename(outfile)}.`) || !/\.\d+(?:\.inputs)?$/.test(name)) continue
    if (statSync(join(folder, name)).mtimeMs < old) rmSync(join(folder, name), { force: true })
  }
}

/** Code from V8's code cache cannot call `import()`, so its only use goes through the starter. */
const importByStarter = {
  name: 'import-by-starter',
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]import-module\.ts$/ }, () => ({ contents: 'export const importModule = importByStarter' }))
  },
}

/** The drivers find their programs relative to their own files; the backends that load them are part of the bundle. */
const sandboxesOutside = {
  name: 'sandboxes-outside',
  setup({ onResolve }) {
    onResolve({ filter: /^@gantry\/(?:sandbox(?:-containers|-kubernetes|-wasm)?|temporal)$/ }, ({ path, kind }) =>
      kind === 'dynamic-import' ? { path, external: true } : undefined,
    )
  },
}

/** How esbuild imports a built-in module; what it takes from it is read at each use. */
const builtIn = /=require\("(node:[a-z0-9_/]+)"\)/g

/**
 * The file is one function expression, so that bin/program.mjs can compile it with V8's code cache. Built-in modules
 * are loaded on first use: most commands need few of them, and loading all takes longer than a short command.
 */
const head =
  '(function(exports,require,module,__filename,importByStarter){' +
  'const $lazy=(name)=>{let found;return new Proxy({},{get:(_,key)=>(found??=require(name))[key]})};'

/** A published bundle resolves paths relative to itself, wherever it is installed. */
const own = `require('node:url').pathToFileURL(__filename).href`

const [, program, entry, outfile] = process.argv
if (program === fileURLToPath(import.meta.url)) await bundleProgram(entry, outfile)
