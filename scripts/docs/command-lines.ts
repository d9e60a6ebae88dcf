import { commandGroup, commands, isCommandName } from 'gantry/internal/cli/command-table'
import { isOptionName, type OptionInfo, options } from 'gantry/internal/cli/option-table'
import type { Page } from './page.ts'

/**
 * Names of commands and options in `sh` fences and inline code that the command line does not have. Nothing runs, so
 * that commands which need a service, an engine or a second terminal are checked too.
 */
export function commandFaults(pages: readonly Page[]): readonly string[] {
  return pages.flatMap(({ file, fences, commands: inline }) => [
    ...fences
      .filter(({ language }) => language === 'sh')
      .flatMap(({ text, line }) => commandLines(text).flatMap((words) => faultsOf(words, `${file}:${line}`))),
    ...inline.flatMap(({ text, line }) => {
      // A placeholder such as `<id>` or `[words]` stands for any word.
      const plain = text.replace(/<[^>]*>|\[[^\]]*\]|…/g, 'x')
      return commandLines(plain).flatMap((words) => faultsOf(words, `${file}:${line}`))
    }),
  ])
}

function faultsOf(words: readonly string[], at: string): readonly string[] {
  const end = words.indexOf('--')
  const own = end < 0 ? words : words.slice(0, end)
  const [first = '', second = ''] = own.filter((word) => !word.startsWith('-'))
  const two = `${first} ${second}`
  const name = isCommandName(two) ? two : first
  if (!isCommandName(name)) {
    const isGroup = first === '' || (commandGroup(first).length > 0 && (second === '' || second === 'x'))
    return isGroup ? [] : [`${at} has a command that does not exist: gantry ${two.trim()}`]
  }
  const allowed: readonly string[] = commands[name].options
  return own
    .filter((word) => /^--?[a-z]/i.test(word))
    .map((word) => word.replace(/=.*$/s, ''))
    .filter((word) => !allowed.includes(optionOf(word)))
    .map((word) => `${at} has an option that gantry ${name} does not have: ${word}`)
}

/** The name of an option, also of one that is given by its letter. */
function optionOf(word: string): string {
  const name = word.replace(/^--?/, '')
  if (word.startsWith('--')) return isOptionName(name) ? name : ''
  return Object.entries<OptionInfo>(options).find(([, { short }]) => short === name)?.[0] ?? ''
}

/** The words after `gantry` of each such command in a shell script. */
function commandLines(script: string): readonly (readonly string[])[] {
  return simpleCommands(script).flatMap((words) => {
    const start = words.findIndex((word) => !/^\w+=/.test(word) && word !== 'npx')
    return words[start] === 'gantry' ? [words.slice(start + 1)] : []
  })
}

/** A quoted text, a substitution, a comment, an operator or a plain piece of a word. */
const piece =
  /'([^']*)'|"((?:\\.|[^"\\])*)"|\$\([^)]*\)|\\\n|(?<=^|\s)#[^\n]*|\d?[<>|&;()]+|\n|[ \t]+|\\?[^\s'"<>|&;()]/gs

function simpleCommands(script: string): readonly (readonly string[])[] {
  const found: string[][] = [[]]
  let word: string | undefined
  const endWord = (): void => {
    if (word !== undefined) found.at(-1)?.push(word)
    word = undefined
  }
  for (const [text, single, double] of script.matchAll(piece)) {
    if (text === '\\\n' || text.startsWith('#') || /^[ \t]+$/.test(text)) endWord()
    else if (text === '\n' || /^\d?[<>|&;()]+$/.test(text)) {
      endWord()
      found.push([])
    } else word = (word ?? '') + (single ?? double ?? text)
  }
  endWord()
  return found
}
