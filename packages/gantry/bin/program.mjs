// Loading the program's modules one by one takes several times as long as a short command (docs/decisions/0003), so it
// is started from one bundled file: `dist/gantry.cjs` in a published package; in the repository, a bundle in
// node_modules/.cache that is made after the first run and again after each change of a source file.

// `import` of a built-in module loads everything it exports; this way loads only what is used.
const { existsSync, lstatSync, mkdirSync, readFileSync, statSync } = process.getBuiltinModule('node:fs')
const { readdirSync, renameSync, unlinkSync, writeFileSync } = process.getBuiltinModule('node:fs')
const { createRequire } = process.getBuiltinModule('node:module')
const { dirname, isAbsolute, join } = process.getBuiltinModule('node:path')
const { fileURLToPath } = process.getBuiltinModule('node:url')
const { Script } = process.getBuiltinModule('node:vm')

const published = fileURLToPath(new URL('../dist/gantry.cjs', import.meta.url))
const source = new URL('../src/main.ts', import.meta.url)
const bundler = new URL('../../../scripts/bundle.mjs', import.meta.url)
const bundled = fileURLToPath(new URL('../../../node_modules/.cache/gantry/gantry.cjs', import.meta.url))

/** Runs the command line on the best form of the program, and in the repository prepares a better one for next time. */
export async function runProgram(argv) {
  const file = existsSync(source) ? freshBundle() : published
  if (file !== undefined) return runBundle(file, argv)
  const { main } = await import(source.href)
  await main(argv)
  await rebundle()
}

/** Runs a bundle with the code that V8 compiled for the same command before, or keeps that code for the next time. */
async function runBundle(file, argv) {
  const codeFile = attempt(() => codeFileOf(file, argv))
  const cachedData = codeFile && attempt(() => readFileSync(codeFile))
  // The bundler writes ASCII only, and text of one byte a character is read fastest.
  const script = new Script(
    readFileSync(file, 'latin1'),
    cachedData ? { filename: file, cachedData } : { filename: file },
  )
  const module = { exports: {} }
  script.runInThisContext()(module.exports, createRequire(file), module, file, (url) => import(url))
  await module.exports.main(argv)
  // Code made after the command has run holds the functions that it used, which is what the next run needs.
  if (codeFile && (!cachedData || script.cachedDataRejected)) attempt(() => save(codeFile, script.createCachedData()))
}

/** One file for each bundle and command: V8 tells scripts apart by their length alone, hence the time. */
function codeFileOf(file, [command = 'help']) {
  const { mtimeMs, size, ino } = statSync(file)
  const known = /^(?:run|stream|chain|tools|search|describe|config|help)$/.test(command) ? command : 'other'
  return join(cacheFolder(), [process.version, ino, Math.round(mtimeMs), size, known].join('-'))
}

/** Written aside and renamed, so that no reader sees half of it; code of older bundles is removed. */
function save(codeFile, code) {
  const folder = dirname(codeFile)
  const limit = Date.now() - 30 * 24 * 3_600_000
  for (const name of readdirSync(folder)) {
    if (statSync(join(folder, name)).mtimeMs < limit) unlinkSync(join(folder, name))
  }
  writeFileSync(`${codeFile}.${process.pid}`, code, { mode: 0o600 })
  renameSync(`${codeFile}.${process.pid}`, codeFile)
}

/** The repository's bundle, unless a file that went into it has changed since. */
function freshBundle() {
  return attempt(() => {
    for (const [path, mtimeMs, size] of JSON.parse(readFileSync(`${bundled}.inputs`, 'utf8'))) {
      const now = statSync(path)
      if (now.mtimeMs !== mtimeMs || now.size !== size) return undefined
    }
    return bundled
  })
}

/**
 * A bundle that cannot be made, for want of esbuild or of the right to write, leaves the next start slow, not wrong. A
 * process of its own makes it, because one that ends in the middle makes esbuild say so on our stderr.
 */
async function rebundle() {
  if (process.env.GANTRY_BUNDLE === 'off') return
  const { spawn } = process.getBuiltinModule('node:child_process')
  const child = spawn(process.execPath, [fileURLToPath(bundler), fileURLToPath(source), bundled], { stdio: 'ignore' })
  await new Promise((resolve) => child.once('exit', resolve).once('error', resolve))
}

/** A folder that only this user can write to, because what is in it gets executed; throws when there is none. */
function cacheFolder() {
  const base = process.env.XDG_CACHE_HOME
  const home = base && isAbsolute(base) ? base : join(process.getBuiltinModule('node:os').homedir(), '.cache')
  const folder = join(home, 'gantry')
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const { uid, mode } = lstatSync(folder)
  const mine = process.getuid === undefined || uid === process.getuid()
  if (!mine || (mode & 0o022) !== 0) throw new Error(`${folder} is open to others`)
  return folder
}

function attempt(work) {
  try {
    return work()
  } catch {
    return undefined
  }
}
