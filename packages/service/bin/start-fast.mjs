// Starts a program of many modules as if it were one file. Loading 170 modules costs more than all the work of a short
// command (docs/decisions/0003-cli-parsing.md has the figures), so the first run links them into one script in the
// user's cache folder, the second keeps V8's compiled code of it, and later runs load just these two files.
// Whatever is missing, stale or not writable only makes the start slower.

// `import` of a built-in module reads all of its exports, and with them loads half of Node; this way does not.
const { lstatSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync, unlinkSync, writeFileSync } =
  process.getBuiltinModule('node:fs')
const { enableCompileCache } = process.getBuiltinModule('node:module')
const { basename, isAbsolute, join } = process.getBuiltinModule('node:path')
const { fileURLToPath } = process.getBuiltinModule('node:url')
const { Script } = process.getBuiltinModule('node:vm')

/** Loads the module at `entry`, lends its exports to `work`, then prepares the next start. */
export async function startFast(entry, work) {
  const folder = cacheFolder()
  if (folder === undefined) return work(await import(entry.href))
  enableCompileCache(folder)
  const file = join(folder, `linked-${hash(`${process.version} ${entry.href}`)}.cjs`)
  const started = attempt(() => startLinked(file, freshScript(file), entry))
  if (started !== undefined) {
    await work(started.exports)
    attempt(started.keepCode)
  } else {
    await work(await import(entry.href))
    const { link } = await import('./link.mjs')
    attempt(() => {
      const text = link(entry)
      forgetCode(folder, file)
      save(file, text)
    })
  }
}

/** Runs the linked script with the code that V8 compiled for this command before, or keeps that code for the next time. */
function startLinked(file, { text, stamp }, entry) {
  // V8 tells scripts apart by length alone, hence the stamp; and each command compiles its own part of the code.
  const command = /^(?:run|stream|chain|tools|search|describe)$/.exec(process.argv[2])?.[0] ?? 'other'
  const codeFile = `${file}.${stamp}.${command}`
  const cachedData = attempt(() => readFileSync(codeFile))
  const code = cachedData === undefined ? {} : { cachedData }
  const script = new Script(text, { filename: fileURLToPath(entry), ...code })
  return {
    exports: script.runInThisContext()((specifier) => import(specifier)),
    keepCode() {
      if (cachedData === undefined || script.cachedDataRejected) save(codeFile, script.createCachedData())
    },
  }
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

/** The linked script and its stamp; throws unless every file it was made of is still the same. */
function freshScript(file) {
  const text = readFileSync(file, 'latin1')
  const { stamp, files } = JSON.parse(text.slice(2, text.indexOf('\n')))
  for (const [path, mtime, ctime, size] of files) {
    const { mtimeMs, ctimeMs, size: bytes } = statSync(path)
    if (mtimeMs !== mtime || ctimeMs !== ctime || bytes !== size) throw new Error(`${path} changed`)
  }
  return { text, stamp }
}

/** Removes the compiled code of earlier versions of a script. */
function forgetCode(folder, file) {
  for (const name of readdirSync(folder)) {
    if (name.startsWith(`${basename(file)}.`)) unlinkSync(join(folder, name))
  }
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
