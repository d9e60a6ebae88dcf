// Starts a program of many modules as if it were one file. Loading 170 modules costs more than all the work of a short
// command (docs/decisions/0003-cli-parsing.md has the figures), so the first run links them into one script in the
// user's cache folder, the second keeps V8's compiled code of it, and later runs load just these two files.
// Whatever is missing, stale or not writable only makes the start slower.
// `import` of a built-in module reads all of its exports, and with them loads half of Node; this way does not.
const { lstatSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } = process.getBuiltinModule('node:fs')
const { enableCompileCache } = process.getBuiltinModule('node:module')
const { isAbsolute, join } = process.getBuiltinModule('node:path')
const { fileURLToPath } = process.getBuiltinModule('node:url')
const { constants, Script } = process.getBuiltinModule('node:vm')

/** Loads the module at `entry`, lends its exports to `work`, then prepares the next start. */
export async function startFast(entry, work) {
  const folder = cacheFolder()
  if (folder === undefined) return work(await import(entry.href))
  enableCompileCache(folder)
  const file = join(folder, `linked-${hash(`${process.version} ${entry.href}`)}.cjs`)
  // A command compiles its own part of the code, so each has a cache of its own.
  const codeFile = `${file}.${/^(?:run|stream|chain|tools|search|describe)$/.exec(process.argv[2])?.[0] ?? 'other'}`
  const cachedData = attempt(() => readFileSync(codeFile))
  const script = attempt(() => compile(freshScript(file), entry, cachedData))
  if (script !== undefined) {
    await work(script.runInThisContext()())
    if (cachedData === undefined || script.cachedDataRejected) attempt(() => save(codeFile, script.createCachedData()))
  } else {
    await work(await import(entry.href))
    const { link } = await import('./link.mjs')
    attempt(() => save(file, link(entry)))
  }
}

function compile(text, entry, cachedData) {
  return new Script(text, {
    filename: fileURLToPath(entry),
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    ...(cachedData === undefined ? {} : { cachedData }),
  })
}

/** A folder that only this user can write to: what is in it gets executed. */
function cacheFolder() {
  if (process.env.NODE_DISABLE_COMPILE_CACHE || process.env.NODE_V8_COVERAGE) return undefined
  const base = process.env.XDG_CACHE_HOME
  return attempt(() => {
    const folder = join(
      base !== undefined && isAbsolute(base) ? base : join(process.getBuiltinModule('node:os').homedir(), '.cache'),
      'gantry',
      'compile',
    )
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const { uid, mode } = lstatSync(folder)
    const mine = process.getuid === undefined || uid === process.getuid()
    return mine && (mode & 0o022) === 0 ? folder : undefined
  })
}

/** The linked script; throws unless every file it was made of is still the same. */
function freshScript(file) {
  const text = readFileSync(file, 'latin1')
  for (const [path, mtime, ctime, size] of JSON.parse(text.slice(2, text.indexOf('\n')))) {
    const { mtimeMs, ctimeMs, size: bytes } = statSync(path)
    if (mtimeMs !== mtime || ctimeMs !== ctime || bytes !== size) throw new Error(`${path} changed`)
  }
  return text
}

/** Written aside and renamed, so that nobody reads half of it. */
function save(file, content) {
  const aside = `${file}.${process.pid}`
  writeFileSync(aside, content, { mode: 0o600 })
  renameSync(aside, file)
}

function attempt(work) {
  try {
    return work()
  } catch {
    return undefined
  }
}

/** FNV-1a: loading node:crypto for a file name would cost more than it saves. */
function hash(text) {
  let value = 0x811c9dc5
  for (let index = 0; index < text.length; index++) value = Math.imul(value ^ text.charCodeAt(index), 0x01000193)
  return (value >>> 0).toString(16).padStart(8, '0')
}
