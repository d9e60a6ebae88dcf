import { decide } from '../decide.ts'
import type { Command } from '../io.ts'

/** Lets a call go on that waits for a person. */
export const execute: Command = (line, io) => decide('approve', line, io)
