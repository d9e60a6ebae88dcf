import type { CommandInfo } from './command-info.ts'

/** The commands that store the keys of services elsewhere: rows of the table of commands. */
export const loginCommands = {
  login: {
    summary:
      'Store the key of a service elsewhere, so that commands use that service; without a URL, list those stored.',
    notes: [
      'The key is typed without echo, or read from stdin with --key-stdin; it is never an argument.',
      'It is stored when the service accepts it, readable by its owner alone, under ~/.config/gantry or $XDG_CONFIG_HOME/gantry.',
      'The last login is the default; GANTRY_URL names another stored one.',
    ],
    discreet: true,
    operands: [{ name: 'url', optional: true }],
    options: ['key-stdin', 'plain-http', 'json', 'help'],
    examples: [
      { line: 'gantry login https://gantry.example.com', what: 'asks for the key, and shows what it may do' },
      { line: 'gantry login https://gantry.example.com --key-stdin', what: 'reads the key from stdin' },
    ],
  },
  logout: {
    summary: 'Remove the stored key of a service, of the default one when none is named.',
    operands: [{ name: 'url', optional: true }],
    options: ['json', 'help'],
    examples: [{ line: 'gantry logout', what: 'removes the key of the default service from this machine' }],
  },
} as const satisfies { readonly [name: string]: CommandInfo }
