import { stripTypeScriptTypes } from 'node:module'

/** Thrown for TypeScript that does not parse; the message is for the program's author. */
export class TypeScriptError extends Error {}

/** Takes types away in place, or, where enums and namespaces must become code, makes JavaScript of the whole. */
export function stripTypes(code: string): string {
  try {
    return stripTypeScriptTypes(code)
  } catch (error) {
    if (codeOf(error) !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') throw asSyntax(error)
  }
  try {
    return stripTypeScriptTypes(code, { mode: 'transform' })
  } catch (error) {
    throw asSyntax(error)
  }
}

function asSyntax(error: unknown): unknown {
  if (!(error instanceof Error) || !String(codeOf(error)).endsWith('_TYPESCRIPT_SYNTAX')) return error
  return new TypeScriptError(error.message)
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
