// Links our own modules into one script: each becomes a function that returns its exports, called once when first needed.
// It knows just the forms that this repository's formatter and rules leave: named imports and exports that begin a line,
// no cycles, no `export *`, no mutable exports. Anything else makes it throw, and the start stays slow but right.
import { readFileSync, realpathSync, statSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { Script } from 'node:vm'

const importing = /^import\s*(?:(?:\{([^}]*)\}|\*\s*as\s+(\w+))\s*from\s*)?'([^']+)'/gm
const reexporting = /^export\s*\{([^}]*)\}\s*from\s*'([^']+)'/gm
const listing = /^export\s*\{([^}]*)\}/gm
const declaring = /^export\s+((?:async\s+)?function\s*\*?|class|const)\s+(\w+)/gm
const loading = /\bimport\(\s*'([^']+)'\s*\)/g

/** The text of a script: a function that takes `import`, for modules that are not ours, and returns the exports of `entry`. */
export function link(entry) {
  const linker = { files: [], bodies: [], indexes: new Map(), open: new Set() }
  const first = add(linker, entry.href)
  const stamp = `${Date.now().toString(36)}-${process.pid.toString(36)}`
  const text = ascii(
    [
      `//${JSON.stringify({ stamp, files: linker.files })}`,
      `'use strict';(($import)=>{const $made=[];`,
      'const $need=(index)=>$made[index]??=$modules[index]();',
      'const $later=async(index)=>$need(index);',
      `const $modules=[${linker.bodies.join(',\n')}];`,
      `return $need(${first})})`,
    ].join('\n'),
  )
  new Script(text)
  return text
}

/** Adds a module and all that it imports; answers with its number. */
function add(linker, url) {
  if (linker.open.has(url)) throw new Error(`${url} imports itself`)
  const known = linker.indexes.get(url)
  if (known !== undefined) return known
  const path = fileURLToPath(url)
  const { mtimeMs, ctimeMs, size } = statSync(path)
  const index = linker.files.push([path, mtimeMs, ctimeMs, size]) - 1
  linker.indexes.set(url, index)
  linker.open.add(url)
  const lazy = []
  linker.bodies[index] = body(sourceOf(path), url, (specifier) => target(linker, specifier, url), lazy)
  linker.open.delete(url)
  for (const { specifier, mark } of lazy) {
    const loaded = target(linker, specifier, url)
    const call = loaded.startsWith('$need') ? loaded.replace('$need', '$later') : `$import('${specifier}')`
    linker.bodies[index] = linker.bodies[index].replace(mark, () => call)
  }
  return index
}

/** A module as a function. Modules loaded later are only marked, because they may import this one. */
function body(source, url, find, lazy) {
  const needs = []
  const exported = []
  const text = source
    .replace(importing, (_, names = '', whole, specifier) => {
      needs.push(`const ${whole ?? `{${pairs(names).map(([from, to]) => `${from}:${to}`)}}`}=${find(specifier)}`)
      return ''
    })
    .replace(reexporting, (_, names, specifier) => {
      for (const [from, to] of pairs(names)) exported.push(`${to}:${find(specifier)}.${from}`)
      return ''
    })
    .replace(listing, (_, names) => {
      for (const [from, to] of pairs(names)) exported.push(`${to}:${from}`)
      return ''
    })
    .replace(declaring, (_, kind, name) => {
      exported.push(name)
      return `${kind} ${name}`
    })
    .replace(loading, (_, specifier) => {
      const mark = `$lazy_${lazy.length}_${url.length}()`
      lazy.push({ specifier, mark })
      return mark
    })
    .replace(/\bimport\(/g, '$$import(')
    .replaceAll('import.meta.url', JSON.stringify(url))
  const left = /^(?:import|export)\b.*|import\.meta.*/m.exec(text)
  if (left !== null) throw new Error(`${url} has a form that cannot be linked: ${left[0]}`)
  return `()=>{${needs.join(';')};\n${text}\nreturn {${exported}}}`
}

function pairs(names) {
  return names.split(',').flatMap((name) => {
    const [from, to = from] = name.trim().split(/\s+as\s+/)
    return from === '' ? [] : [[from, to]]
  })
}

/** How a module gets at another: ours by number, Node's own by name, all else not at all. */
function target(linker, specifier, parent) {
  if (specifier.startsWith('node:')) return `process.getBuiltinModule('${specifier}')`
  if (specifier.startsWith('.')) return `$need(${add(linker, new URL(specifier, parent).href)})`
  if (!specifier.startsWith('@gantry/')) return ''
  const path = realpathSync(fileURLToPath(import.meta.resolve(specifier)))
  return `$need(${add(linker, pathToFileURL(path).href)})`
}

function sourceOf(path) {
  const text = readFileSync(path, 'utf8')
  if (!path.endsWith('.ts')) return text
  // Stripping is stable in behaviour but still announces itself as an experiment, which would be noise to a user.
  const { emitWarning } = process
  process.emitWarning = () => {}
  try {
    // Where a type was, letters outside of ASCII leave an en space, to keep columns.
    return text.includes('\u2002') ? stripTypeScriptTypes(text) : stripTypeScriptTypes(text).replaceAll('\u2002', ' ')
  } finally {
    process.emitWarning = emitWarning
  }
}

/** Text of one byte per character is read and compiled faster. */
function ascii(text) {
  if (text.includes('String.raw')) throw new Error('String.raw does not survive escapes')
  return text.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
