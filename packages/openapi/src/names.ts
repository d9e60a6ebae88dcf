import { sha256 } from '@gantry/core/internal/json/canonical'
import type { Operation, Report } from './operations.ts'

const maxName = 128
const maxArgument = 64

/**
 * A tool name for each operation: its operationId in allowed characters, or its method and path. Operations with the
 * same name all get a suffix made of method and path, so that a name does not depend on the order of the document.
 * Names that differ only in case are the same, as in a catalog.
 */
export function nameOperations(operations: readonly Operation[], report: Report): ReadonlyMap<Operation, string> {
  const wanted = Map.groupBy(operations, (operation) => plainName(operation).toLowerCase())
  const names = new Map<Operation, string>()
  for (const same of wanted.values()) {
    for (const operation of same) {
      const name = plainName(operation)
      const own = same.length === 1 ? name : `${name.slice(0, maxName - 7)}_${digest(operation)}`
      names.set(operation, own)
      if (own !== name) {
        const message = `the name ${name} would stand for ${same.length} operations; this one is ${own}`
        report.warn(operation.path, message, operation.label)
      }
    }
  }
  return names
}

function plainName(operation: Operation): string {
  const { operationId } = operation.value
  const given = typeof operationId === 'string' && /[A-Za-z0-9]/.test(operationId) ? toolName(operationId) : ''
  return given !== ''
    ? given
    : toolName(`${operation.method.toLowerCase()}_${operation.template.replaceAll(/[{}]/g, '')}`)
}

/** Replaces other characters: a name has letters, digits, `_`, `-` and single dots, and does not start with `.` or `-`. */
function toolName(text: string): string {
  return text
    .slice(0, 200)
    .replaceAll(/[^A-Za-z0-9_.-]+/g, '_')
    .replaceAll(/\.{2,}/g, '.')
    .replaceAll(/_{2,}/g, '_')
    .replace(/^[.-]+/, '')
    .replace(/(?<=.)[_.-]+$/, '')
    .slice(0, maxName)
}

function digest({ method, template }: Operation): string {
  return sha256(`${method} ${template}`).slice(0, 6)
}

/** A tag, normalized as in a catalog; empty when no character is allowed. */
export function tagName(text: string): string {
  return text
    .slice(0, 200)
    .toLowerCase()
    .replaceAll(/[^a-z0-9_.-]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 64)
}

/**
 * The argument name of a parameter: in characters that every model API accepts, and without a trailing `_`, which also
 * excludes `__proto__`.
 */
export function argumentName(wire: string): string {
  const name = wire
    .slice(0, 1_000)
    .replaceAll(/[^A-Za-z0-9_.-]+/g, '_')
    .slice(0, maxArgument)
    .replace(/_+$/, '')
  return name === '' ? 'argument' : name
}

/** Returns the first free name of `name`, `name_2`, `name_3`; keeps the last number, because there may be many. */
export function createNamer(taken: { has(name: string): boolean }): (name: string) => string {
  const counts = new Map<string, number>()
  return (name) => {
    let free = name
    for (let count = counts.get(name) ?? 2; taken.has(free); count++) {
      free = `${name}_${count}`
      counts.set(name, count + 1)
    }
    return free
  }
}
