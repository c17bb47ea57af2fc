"""Every statement of the queue, by table, in the order of a row's life.

Texts are static; what varies is a parameter; batches are arrays. Only the managers
import them.
"""
